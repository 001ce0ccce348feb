# CRC-32C for compiled kernels: without the interpreter's lock, and in hardware where there is such (see crc.py).

cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    static uint32_t kmini_crc_table[8][256];

    /* In software, eight bytes a step. `crc` is the inverted checksum, as everywhere here. */
    static uint32_t kmini_crc_soft(uint32_t crc, const unsigned char *data, size_t size) {
        while (size >= 8) {
            uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16
                                  | (uint32_t)data[3] << 24);
            crc = kmini_crc_table[7][low & 255] ^ kmini_crc_table[6][low >> 8 & 255]
                ^ kmini_crc_table[5][low >> 16 & 255] ^ kmini_crc_table[4][low >> 24]
                ^ kmini_crc_table[3][data[4]] ^ kmini_crc_table[2][data[5]]
                ^ kmini_crc_table[1][data[6]] ^ kmini_crc_table[0][data[7]];
            data += 8;
            size -= 8;
        }
        while (size--)
            crc = crc >> 8 ^ kmini_crc_table[0][(crc ^ *data++) & 255];
        return crc;
    }

    static uint32_t (*kmini_crc_run)(uint32_t, const unsigned char *, size_t) = kmini_crc_soft;

    static void kmini_crc_fill_table(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; bit++)
                crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
            kmini_crc_table[0][byte] = crc;
        }
        for (int row = 1; row < 8; row++)
            for (int byte = 0; byte < 256; byte++) {
                uint32_t before = kmini_crc_table[row - 1][byte];
                kmini_crc_table[row][byte] = before >> 8 ^ kmini_crc_table[0][before & 255];
            }
    }

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

    /* The instruction takes three cycles, and a new one can begin in each: so three lanes of bytes at a time, whose
       checksums are put together by what so many bytes of zero would make of them. */
    #define KMINI_CRC_LONG 1024
    #define KMINI_CRC_SHORT 128
    static uint32_t kmini_crc_beyond_long[4][256], kmini_crc_beyond_short[4][256];

    static void kmini_crc_fill_beyond(uint32_t table[4][256], int zeros) {
        uint32_t of_bit[32];
        for (int bit = 0; bit < 32; bit++) {
            of_bit[bit] = (uint32_t)1 << bit;
            for (int count = 0; count < zeros; count++)
                of_bit[bit] = of_bit[bit] >> 8 ^ kmini_crc_table[0][of_bit[bit] & 255];
        }
        for (int row = 0; row < 4; row++)
            for (int byte = 0; byte < 256; byte++) {
                table[row][byte] = 0;
                for (int bit = 0; bit < 8; bit++)
                    if (byte >> bit & 1)
                        table[row][byte] ^= of_bit[8 * row + bit];
            }
    }

    static inline uint32_t kmini_crc_beyond(uint32_t table[4][256], uint32_t crc) {
        return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
    }

    #define KMINI_CRC_STEP(crc, at) \\
        do { \\
            uint64_t kmini_word; \\
            memcpy(&kmini_word, at, 8); \\
            crc = __builtin_ia32_crc32di(crc, kmini_word); \\
        } while (0)

    #define KMINI_CRC_LANES(lane, table) \\
        while (size >= 3 * lane) { \\
            uint64_t second = 0, third = 0; \\
            for (size_t at = 0; at < lane; at += 8) { \\
                KMINI_CRC_STEP(first, data + at); \\
                KMINI_CRC_STEP(second, data + lane + at); \\
                KMINI_CRC_STEP(third, data + 2 * lane + at); \\
            } \\
            first = kmini_crc_beyond(table, (uint32_t)first) ^ (uint32_t)second; \\
            first = kmini_crc_beyond(table, (uint32_t)first) ^ (uint32_t)third; \\
            data += 3 * lane; \\
            size -= 3 * lane; \\
        }

    __attribute__((target("sse4.2")))
    static uint32_t kmini_crc_hard(uint32_t crc, const unsigned char *data, size_t size) {
        uint64_t first = crc;
        KMINI_CRC_LANES(KMINI_CRC_LONG, kmini_crc_beyond_long)
        KMINI_CRC_LANES(KMINI_CRC_SHORT, kmini_crc_beyond_short)
        for (; size >= 8; data += 8, size -= 8)
            KMINI_CRC_STEP(first, data);
        for (; size; data++, size--)
            first = __builtin_ia32_crc32qi((uint32_t)first, *data);
        return (uint32_t)first;
    }

    static void kmini_crc_choose(void) {
        kmini_crc_fill_beyond(kmini_crc_beyond_long, KMINI_CRC_LONG);
        kmini_crc_fill_beyond(kmini_crc_beyond_short, KMINI_CRC_SHORT);
        if (__builtin_cpu_supports("sse4.2"))
            kmini_crc_run = kmini_crc_hard;
    }

    #elif defined(__ARM_FEATURE_CRC32) && !defined(__ARM_BIG_ENDIAN)

    #include <arm_acle.h>

    static uint32_t kmini_crc_hard(uint32_t crc, const unsigned char *data, size_t size) {
        for (; size >= 8; data += 8, size -= 8) {
            uint64_t word;
            memcpy(&word, data, 8);
            crc = __crc32cd(crc, word);
        }
        for (; size; data++, size--)
            crc = __crc32cb(crc, *data);
        return crc;
    }

    static void kmini_crc_choose(void) {
        kmini_crc_run = kmini_crc_hard;
    }

    #else

    static void kmini_crc_choose(void) {
    }

    #endif

    static void kmini_crc_begin(void) {
        kmini_crc_fill_table();
        kmini_crc_choose();
    }

    static uint32_t kmini_crc32c(const unsigned char *data, size_t size) {
        return ~kmini_crc_run(~(uint32_t)0, data, size);
    }
    """
    void kmini_crc_begin()
    unsigned int kmini_crc32c(const unsigned char *data, size_t size)
