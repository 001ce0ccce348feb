# What the compiled kernels share, in C; varints.py has the same for the interpreter.

cdef inline (long long, Py_ssize_t) number(
    const unsigned char *data, Py_ssize_t position, Py_ssize_t end, int most
) noexcept nogil:
    """The varint (at `most` 35 bits) or varlong (70) at `position`, and where it ends: behind `end` if it is none."""
    cdef unsigned long long raw, byte
    cdef int shift
    if position >= end:
        return 0, end + 1
    raw = data[position]
    position += 1
    if raw >= 0x80:
        byte = raw
        raw &= 0x7F
        shift = 7
        while byte >= 0x80:
            if position >= end or shift >= most:
                return 0, end + 1
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
        if most == 35:
            raw = <unsigned int>raw
    return <long long>(raw >> 1 ^ -(raw & 1)), position


cdef inline long long int32_at(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    cdef long long raw = <signed char>data[at]
    return raw << 24 | <long long>data[at + 1] << 16 | <long long>data[at + 2] << 8 | data[at + 3]


cdef inline long long int64_at(const unsigned char *data, Py_ssize_t at) noexcept nogil:
    cdef unsigned long long high = int32_at(data, at)
    cdef unsigned int low = int32_at(data, at + 4)
    return <long long>(high << 32 | low)


cdef inline long long wrapping_sum(unsigned long long a, unsigned long long b) noexcept nogil:
    """a + b in 64 bits, as Java adds."""
    return <long long>(a + b)


cdef inline int append_number(bytearray out, long long value) except -1:
    """Write the varint or varlong of a number behind what is there."""
    cdef unsigned long long raw = <unsigned long long>value << 1 ^ <unsigned long long>(value >> 63)
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return 0


cdef inline Py_ssize_t number_size(long long value) noexcept nogil:
    """Bytes of the varint or varlong of a number."""
    cdef unsigned long long raw = <unsigned long long>value << 1 ^ <unsigned long long>(value >> 63)
    cdef Py_ssize_t size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline Py_ssize_t write_number(unsigned char *out, Py_ssize_t position, long long value) noexcept nogil:
    """Write the varint or varlong of a number at `position`; return where it ends."""
    cdef unsigned long long raw = <unsigned long long>value << 1 ^ <unsigned long long>(value >> 63)
    while raw >= 0x80:
        out[position] = raw & 0x7F | 0x80
        raw >>= 7
        position += 1
    out[position] = raw
    return position + 1
