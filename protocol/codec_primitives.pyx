"""What the functions of `compiled_codecs` are made of; setup.py puts it before them (`codec_extension.py`).

A function that decodes returns None, and one that encodes False, wherever something is out of the ordinary: bytes that
are malformed, values of another class or too large for their field. The interpreted function then has the last word, so
what is accepted, and what a peer or a caller is told, is said in one place.

A struct is a Python object whose fields are slots. They lie behind the head of the object in the order of their names,
which `has_slots` checks before any is touched.
"""

from libc.stdint cimport int16_t, int32_t, int64_t
from libc.string cimport memcpy, memmove
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc

ctypedef const unsigned char *Bytes

cdef extern from *:
    """
    #include "structmember.h"

    #define SIZE_OF_HEAD ((Py_ssize_t)sizeof(PyObject))
    #define SLOTS_OF(made) ((PyObject **)((PyObject *)(made) + 1))
    """
    ctypedef struct PyObject

    ctypedef struct PyTypeObject:
        PyObject *(*tp_alloc)(PyTypeObject *, Py_ssize_t)

    ctypedef struct PyMemberDef:
        Py_ssize_t offset

    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

    Py_ssize_t SIZE_OF_HEAD
    PyObject **SLOTS_OF(object)
    PyTypeObject *Py_TYPE(object)
    void Py_INCREF(object)
    void Py_XDECREF(PyObject *)
    void PyErr_Clear()

    bint PyLong_Check(PyObject *)
    bint PyLong_CheckExact(PyObject *)
    long long PyLong_AsLongLongAndOverflow(PyObject *, int *) noexcept
    object PyLong_FromLong(long)
    object PyLong_FromLongLong(long long)

    bint PyBytes_CheckExact(PyObject *)
    char *PyBytes_AS_STRING(PyObject *)
    Py_ssize_t PyBytes_GET_SIZE(PyObject *)

    bint PyUnicode_CheckExact(object)
    bint PyUnicode_IS_COMPACT_ASCII(object)
    const void *PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    object PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *)

    bint PyList_CheckExact(PyObject *)
    Py_ssize_t PyList_GET_SIZE(object)
    PyObject *PyList_GET_ITEM(object, Py_ssize_t)

    bint PyByteArray_CheckExact(object)
    char *PyByteArray_AS_STRING(object)
    Py_ssize_t PyByteArray_GET_SIZE(object)
    int PyByteArray_Resize(object, Py_ssize_t) noexcept

    bint PyMemoryView_Check(object)

    ctypedef PyObject *(*PyCFunction)(PyObject *, PyObject *)

    ctypedef struct PyMethodDef:
        const char *ml_name
        PyCFunction ml_meth
        int ml_flags
        const char *ml_doc

    int METH_FASTCALL, METH_KEYWORDS
    object PyCFunction_New(PyMethodDef *, object)
    int get_buffer "PyObject_GetBuffer"(object, Py_buffer *, int) noexcept


cdef object UNSET = object()
"""Stands for the value of a slot that nothing was put into; it is of no class that a field may have."""


# Slots

cdef bint has_slots(object cls, tuple names) except -1:
    """Whether these are the fields of a struct, and lie where the functions look for them."""
    cdef Py_ssize_t index
    cdef object descriptor
    if tuple(sorted(cls.__slots__)) != names:
        return False
    for index in range(len(names)):
        descriptor = cls.__dict__[names[index]]
        if type(descriptor) is not MemberDescriptorType:
            return False
        if (<PyMemberDescrObject *><void *>descriptor).d_member.offset != SIZE_OF_HEAD + index * <Py_ssize_t>sizeof(void *):
            return False
    return True


cdef inline object new(object cls):
    """A struct without its fields."""
    cdef PyTypeObject *kind = <PyTypeObject *><void *>cls
    cdef PyObject *made = kind.tp_alloc(kind, 0)
    if made is NULL:
        raise MemoryError
    cdef object owned = <object>made
    Py_XDECREF(made)  # of the two references one goes
    return owned


cdef inline void put(object made, Py_ssize_t slot, object value) noexcept:
    cdef PyObject *before = SLOTS_OF(made)[slot]
    Py_INCREF(value)
    SLOTS_OF(made)[slot] = <PyObject *>value
    Py_XDECREF(before)


cdef inline PyObject *held(object made, Py_ssize_t slot) noexcept:
    """The value of a field, and still the struct's; NULL if it was not set."""
    return SLOTS_OF(made)[slot]


cdef inline object field(object made, Py_ssize_t slot):
    cdef PyObject *value = SLOTS_OF(made)[slot]
    return UNSET if value is NULL else <object>value


cdef inline bint is_a(object made, object cls) noexcept:
    return <PyObject *>Py_TYPE(made) == <PyObject *>cls


# Making

cdef enum:
    MOST_SLOTS = 16

cdef class Maker:
    """How structs of a class are made: slots, names and defaults of their fields, in the order of the schema."""

    cdef object cls
    cdef tuple names
    cdef tuple defaults
    cdef Py_ssize_t[MOST_SLOTS] slots


cdef object made(object maker, PyObject *const *given, Py_ssize_t count, PyObject *keywords):
    """A struct of the values given in order and by name, or what the interpreted function makes of them."""
    cdef Maker how = <Maker>maker
    cdef Py_ssize_t index, fields = len(how.names), named = 0
    cdef object struct = new(how.cls)
    for index in range(min(count, fields)):
        put(struct, how.slots[index], <object>given[index])
    if keywords is not NULL:
        for name in <tuple>keywords:
            for index in range(count, fields):
                if how.names[index] is name and held(struct, how.slots[index]) is NULL:
                    put(struct, how.slots[index], <object>given[count + named])
                    named += 1
                    break
    for index in range(count, fields):
        if held(struct, how.slots[index]) is NULL:
            put(struct, how.slots[index], [] if how.defaults[index] is UNSET else how.defaults[index])
    if count > fields or (keywords is not NULL and named < len(<tuple>keywords)):
        names = () if keywords is NULL else <tuple>keywords
        values = [<object>given[index] for index in range(count + len(names))]
        return interpreted_maker(how.cls)(*values[:count], **dict(zip(names, values[count:])))
    return struct


cdef PyMethodDef MAKE
MAKE.ml_name, MAKE.ml_meth, MAKE.ml_flags, MAKE.ml_doc = "make", <PyCFunction>made, METH_FASTCALL | METH_KEYWORDS, NULL


def maker_of(cls):
    cdef Maker maker = Maker.__new__(Maker)
    cdef list names = sorted(cls.__slots__)
    if len(names) > MOST_SLOTS or not has_slots(cls, tuple(names)):
        return None
    maker.cls, maker.names = cls, tuple(cls.__slots__)
    maker.defaults = tuple([
        UNSET if field.default == [] else None if field.default is REQUIRED else field.default
        for field in cls.__fields__
    ])
    for index, name in enumerate(maker.names):
        maker.slots[index] = names.index(name)
    return PyCFunction_New(&MAKE, maker)


# Decoding

cdef inline int16_t int_h(Bytes at) noexcept:
    return <int16_t>(at[0] << 8 | at[1])


cdef inline int32_t int_i(Bytes at) noexcept:
    return <int32_t>(<unsigned int>at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3])


cdef inline int64_t int_q(Bytes at) noexcept:
    return <int64_t>(<unsigned long long><unsigned int>int_i(at) << 32 | <unsigned int>int_i(at + 4))


cdef inline object load_b(Bytes at):
    return PyLong_FromLong(<signed char>at[0])


cdef inline object load_h(Bytes at):
    return PyLong_FromLong(int_h(at))


cdef inline object load_i(Bytes at):
    return PyLong_FromLong(int_i(at))


cdef inline object load_q(Bytes at):
    return PyLong_FromLongLong(int_q(at))


cdef inline object load_uuid(Bytes at):
    return PyBytes_FromStringAndSize(<const char *>at, 16)


cdef bint varint(Bytes data, Py_ssize_t end, Py_ssize_t *position, int64_t *value) noexcept:
    """Read an unsigned varint; False if the bytes end first or it has more than 32 bits."""
    cdef int shift
    cdef int64_t byte
    value[0] = 0
    for shift in range(0, 35, 7):
        if position[0] >= end:
            return False
        byte = data[position[0]]
        position[0] += 1
        value[0] |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return value[0] < <int64_t>1 << 32
    return False


cdef inline bint compact_length(Bytes data, Py_ssize_t end, Py_ssize_t *position, int64_t *n) noexcept:
    """Read a length, -1 for null; False as `varint`."""
    if position[0] < end and data[position[0]] < 128:
        n[0] = data[position[0]] - 1
        position[0] += 1
        return True
    if not varint(data, end, position, n):
        return False
    n[0] -= 1
    return True


cdef inline object string(Bytes data, Py_ssize_t position, int64_t stop, Py_ssize_t end):
    """The text from `position` to `stop`, or to the end if that is nearer; UnicodeDecodeError if it is none."""
    return PyUnicode_DecodeUTF8(<const char *>data + position, <Py_ssize_t>min(stop, end) - position, NULL)


cdef inline object copy_of(Bytes data, Py_ssize_t position, int64_t stop):
    return PyBytes_FromStringAndSize(<const char *>data + position, <Py_ssize_t>stop - position)


cdef inline object view_of(object view, Py_ssize_t position, int64_t stop):
    return view[position:<Py_ssize_t>stop]


cdef bint read_tag(
    Bytes data, Py_ssize_t end, Py_ssize_t *position, int64_t *tag, int64_t *end_of_tag
) noexcept:
    """Read the number of a tagged field, and where its value ends; False as `varint`, and if that is behind the end."""
    cdef int64_t size
    if not varint(data, end, position, tag) or not varint(data, end, position, &size):
        return False
    end_of_tag[0] = position[0] + size
    return end_of_tag[0] <= end


cdef bint skip_tags(Bytes data, Py_ssize_t end, Py_ssize_t *position, int64_t count) noexcept:
    """Skip tagged fields; False as `read_tag`, and for too many."""
    cdef int64_t tag, end_of_tag
    if count > MAX_UNKNOWN_TAGS:
        return False
    while count:
        count -= 1
        if not read_tag(data, end, position, &tag, &end_of_tag):
            return False
        position[0] = end_of_tag
    return True


ctypedef object (*Read)(object view, Bytes data, Py_ssize_t end)


cdef object decoded(Read read, object buffer, object cls, int version, bint keeps_views):
    """What `read` makes of a buffer, or the interpreted function if that gives up."""
    cdef Py_buffer lent
    cdef object message
    if keeps_views and not PyMemoryView_Check(buffer):
        buffer = memoryview(buffer)
    PyObject_GetBuffer(buffer, &lent, PyBUF_SIMPLE)
    try:
        message = read(buffer, <Bytes>lent.buf, lent.len) if lent.itemsize == 1 else None
    finally:
        PyBuffer_Release(&lent)
    return interpreted_decoder(cls, version)(buffer) if message is None else message


# Encoding

cdef enum:
    BYTES_IN_PLACE = 512  # most messages fit; what is longer goes to the heap

cdef struct Writer:
    unsigned char *at
    Py_ssize_t size
    Py_ssize_t room
    PyObject *out  # the bytearray that gets the bytes, the last of `parts`
    PyObject *parts
    unsigned char[BYTES_IN_PLACE] in_place


cdef unsigned char *larger(Writer *out, Py_ssize_t more) noexcept:
    cdef Py_ssize_t room = 2 * out.room + more
    cdef unsigned char *before = NULL if out.at == out.in_place else out.at
    cdef unsigned char *at = <unsigned char *>PyMem_Realloc(before, room)
    if at is NULL:
        return NULL
    if before is NULL:
        memcpy(at, out.at, out.size)
    out.at, out.room = at, room
    return at + out.size


cdef inline unsigned char *room_for(Writer *out, Py_ssize_t more) noexcept:
    """Where the next bytes go, of which there is room for as many; NULL if there is no memory for them."""
    if out.room - out.size >= more:
        return out.at + out.size
    return larger(out, more)


cdef bint write(Writer *out, const void *data, Py_ssize_t size) noexcept:
    cdef unsigned char *at = room_for(out, size)
    if at is NULL:
        return False
    memcpy(at, data, size)
    out.size += size
    return True


cdef inline bint write_byte(Writer *out, unsigned char value) noexcept:
    cdef unsigned char *at = room_for(out, 1)
    if at is NULL:
        return False
    at[0] = value
    out.size += 1
    return True


cdef inline Py_ssize_t place_varint(unsigned char *at, int64_t value) noexcept:
    """Write an unsigned varint, and return how many bytes it has."""
    cdef Py_ssize_t size = 0
    while value > 0x7F:
        at[size] = <unsigned char>(value & 0x7F | 0x80)
        value >>= 7
        size += 1
    at[size] = <unsigned char>value
    return size + 1


cdef inline bint write_varint(Writer *out, int64_t value) noexcept:
    cdef unsigned char *at = room_for(out, 5)
    if at is NULL or value >= <int64_t>1 << 32:
        return False
    out.size += place_varint(at, value)
    return True


cdef inline void place_h(unsigned char *at, int64_t value) noexcept:
    at[0], at[1] = <unsigned char>(value >> 8), <unsigned char>value


cdef inline void place_i(unsigned char *at, int64_t value) noexcept:
    place_h(at, value >> 16)
    place_h(at + 2, value)


cdef inline bint number(PyObject *value, int64_t *result) noexcept:
    """Whether a value is a whole number of 64 bits."""
    cdef int overflow
    if value is NULL or not PyLong_Check(value):
        return False
    result[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return overflow == 0


cdef inline bint length_h(unsigned char *at, Py_ssize_t value) noexcept:
    place_h(at, value)
    return value <= 0x7FFF


cdef inline bint length_i(unsigned char *at, Py_ssize_t value) noexcept:
    place_i(at, value)
    return value <= 0x7FFFFFFF


cdef inline bint store_b(unsigned char *at, PyObject *value) noexcept:
    cdef int64_t result
    if not number(value, &result) or result != <signed char>result:
        return False
    at[0] = <unsigned char>result
    return True


cdef inline bint store_h(unsigned char *at, PyObject *value) noexcept:
    cdef int64_t result
    if not number(value, &result) or result != <int16_t>result:
        return False
    place_h(at, result)
    return True


cdef inline bint store_i(unsigned char *at, PyObject *value) noexcept:
    cdef int64_t result
    if not number(value, &result) or result != <int32_t>result:
        return False
    place_i(at, result)
    return True


cdef inline bint store_q(unsigned char *at, PyObject *value) noexcept:
    cdef int64_t result
    if not number(value, &result):
        return False
    place_i(at, result >> 32)
    place_i(at + 4, result)
    return True


cdef inline bint store_uuid(unsigned char *at, PyObject *value) noexcept:
    if value is NULL or not PyBytes_CheckExact(value) or PyBytes_GET_SIZE(value) != 16:
        return False
    memcpy(at, PyBytes_AS_STRING(value), 16)
    return True


cdef inline bint is_empty_list(PyObject *value) noexcept:
    return value is not NULL and PyList_CheckExact(value) and PyList_GET_SIZE(<object>value) == 0


cdef inline bint is_int(PyObject *value) noexcept:
    return value is not NULL and PyLong_CheckExact(value)


cdef inline bint is_bytes(PyObject *value) noexcept:
    return value is not NULL and PyBytes_CheckExact(value)


cdef inline object utf8(object text):
    """A string as it is if its characters are its bytes, else its bytes; None for what is no string or cannot be
    expressed."""
    if not PyUnicode_CheckExact(text):
        return None
    if PyUnicode_IS_COMPACT_ASCII(text):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


cdef inline Py_ssize_t utf8_size(object text) noexcept:
    return PyUnicode_GET_LENGTH(text) if PyUnicode_CheckExact(text) else PyBytes_GET_SIZE(<PyObject *>text)


cdef inline bint write_utf8(Writer *out, object text) noexcept:
    if PyUnicode_CheckExact(text):
        return write(out, PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))
    return write(out, PyBytes_AS_STRING(<PyObject *>text), PyBytes_GET_SIZE(<PyObject *>text))


cdef bint size_of_bytes(object buffer, Py_ssize_t *size) noexcept:
    """Whether this is bytes, a bytearray or a view of bytes, and how many."""
    cdef Py_buffer lent
    if PyBytes_CheckExact(<PyObject *>buffer):
        size[0] = PyBytes_GET_SIZE(<PyObject *>buffer)
        return True
    if not (PyMemoryView_Check(buffer) or PyByteArray_CheckExact(buffer)):
        return False
    if get_buffer(buffer, &lent, PyBUF_SIMPLE):
        PyErr_Clear()
        return False
    size[0] = lent.len
    cdef bint is_of_bytes = lent.itemsize == 1
    PyBuffer_Release(&lent)
    return is_of_bytes


cdef bint write_bytes(Writer *out, object buffer) noexcept:
    cdef Py_buffer lent
    if PyBytes_CheckExact(<PyObject *>buffer):
        return write(out, PyBytes_AS_STRING(<PyObject *>buffer), PyBytes_GET_SIZE(<PyObject *>buffer))
    if get_buffer(buffer, &lent, PyBUF_SIMPLE):
        PyErr_Clear()
        return False
    cdef bint is_written = write(out, lent.buf, lent.len)
    PyBuffer_Release(&lent)
    return is_written


cdef bint end_tag(Writer *out, Py_ssize_t tags_at, Py_ssize_t begin) noexcept:
    """Write the size of a tagged field before its value, which begins there, and count the field."""
    cdef unsigned char[5] size
    cdef Py_ssize_t value_size = out.size - begin
    cdef Py_ssize_t size_size = place_varint(size, value_size)
    if room_for(out, size_size) is NULL:
        return False
    memmove(out.at + begin + size_size, out.at + begin, value_size)
    memcpy(out.at + begin, size, size_size)
    out.size += size_size
    out.at[tags_at] += 1
    return True


cdef bint finish(Writer *out) noexcept:
    """Move what was written behind the bytes of the bytearray."""
    cdef object array = <object>out.out
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(array)
    if out.size == 0:
        return True
    if PyByteArray_Resize(array, before + out.size):
        PyErr_Clear()
        return False
    memcpy(PyByteArray_AS_STRING(array) + before, out.at, out.size)
    out.size = 0
    return True


cdef bint pass_on(Writer *out, object records) except -1:
    """Make records a part of their own."""
    cdef list parts = <list>out.parts
    cdef bytearray following = bytearray()
    if not finish(out):
        return False
    parts.append(records)
    parts.append(following)
    out.out = <PyObject *>following
    return True


ctypedef bint (*Write)(object message, Writer *out) except -1


cdef object encoded(Write write, object message, object out, object cls, int version):
    """The parts that `write` makes of a message, or the interpreted function if that gives up."""
    cdef Writer writer
    cdef list parts = [out]
    cdef Py_ssize_t before
    cdef bint is_done
    if not PyByteArray_CheckExact(out):
        return interpreted_encoder(cls, version)(message, out)
    before = PyByteArray_GET_SIZE(out)
    writer.at, writer.size, writer.room = writer.in_place, 0, BYTES_IN_PLACE
    writer.out, writer.parts = <PyObject *>out, <PyObject *>parts
    try:
        is_done = write(message, &writer) and finish(&writer)
    finally:
        if writer.at != writer.in_place:
            PyMem_Free(writer.at)
    if is_done:
        return parts
    del out[before:]
    return interpreted_encoder(cls, version)(message, out)
