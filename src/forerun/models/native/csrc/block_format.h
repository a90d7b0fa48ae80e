// How blocks of a GGUF file lie in a panel: one layout for Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K.
//
// A block is 32 inputs of the panel's 32 outputs. Inputs go in eight groups of four: group g of an output is one 32-bit
// lane, so that one instruction multiplies it with four int8 activations. A unit is the smallest run of whole blocks: one
// block, or a super-block of eight.
//
//   unit   = [fp16 scale x 32] [fp16 min x 32]      super-blocks only, ahead of their blocks
//            block, block, ...
//   block  = four times 128 bytes: low nibbles of group g, high nibbles of group g + 4 (Q8_0: eight times, whole bytes)
//            the fifth bit of all groups, 128 bytes; or the fifth and sixth, 2 x 128 bytes, four groups each
//            [fp16 scale x 32] [fp16 min x 32], or within a super-block one byte each
//
// A weight is scale * (q - OFFSET), or scale * q + min; within a super-block (d * s) * (q - OFFSET) or (d * s) * q - dmin * m.
// These are the numbers of the file, in as many bytes (Q4_K and Q5_K: 12 bytes of packed scales became 16).
#pragma once
#include "forerun_kernels.h"
#include "vector.h"

constexpr int BLOCK = 32;        // inputs of a block, and activations that share a scale
constexpr int GROUP = 4;         // inputs of a lane
constexpr int GROUPS = BLOCK / GROUP;
constexpr int LINE_OF_GROUP = 128; // bytes of a group, 32 outputs of four

// BITS of a weight (4, 5, 6 or 8); BLOCKS_ of a unit (1 or 8); SPANS_ of a block that have a scale each (1, or 2 of 16).
template <int BITS_, int BLOCKS_, bool HAS_MIN_, int SPANS_> struct BlockFormat {
    static constexpr int BITS = BITS_, BLOCKS = BLOCKS_, SPANS = SPANS_;
    static constexpr bool HAS_MIN = HAS_MIN_, IS_SUPER = BLOCKS > 1;
    // Weights lie as unsigned numbers; those without a minimum are symmetric around the middle of their range.
    static constexpr int OFFSET_SHIFT = BITS - 1, OFFSET = HAS_MIN ? 0 : 1 << OFFSET_SHIFT;
    static constexpr int FIELDS = HAS_MIN ? 2 : 1; // scale, min
    static constexpr int HALF_FIELDS = FIELDS * 64, HIGH_BITS = GROUPS / 2 * LINE_OF_GROUP;
    static constexpr int WEIGHTS = BLOCK * BITS * 4; // bytes
    static constexpr int HEADER = IS_SUPER ? HALF_FIELDS : 0;
    static constexpr int SCALES = IS_SUPER ? (HAS_MIN ? 2 : SPANS) * 32 : HALF_FIELDS;
    static constexpr int BLOCK_BYTES = WEIGHTS + SCALES, UNIT_BYTES = HEADER + BLOCKS * BLOCK_BYTES;
    static constexpr int UNIT_INPUTS = BLOCKS * BLOCK;

    // Four weights of each lane, unsigned bytes. `at` is the block, moved on by the lanes' place in a line.
    static inline VecBits group(const char *at, int g) {
        if constexpr (BITS == 8) return bits(at + g * LINE_OF_GROUP);
        const VecBits both = bits(at + g % 4 * LINE_OF_GROUP);
        const VecBits low = (g < 4 ? both : both >> 4) & 0x0f0f0f0fu;
        if constexpr (BITS == 5) {
            const VecBits high = bits(at + HIGH_BITS);
            return low | ((g < 4 ? high << (4 - g) : high >> (g - 4)) & 0x10101010u);
        }
        if constexpr (BITS == 6) {
            const VecBits high = bits(at + HIGH_BITS + g / 4 * LINE_OF_GROUP);
            return low | ((g % 4 == 3 ? high >> 2 : high << (4 - g % 4 * 2)) & 0x30303030u);
        }
        return low;
    }

    // One weight of one output, unsigned: the same layout, for packing back.
    static inline int weight(const char *block, int lane, int k) {
        const int g = k / GROUP, place = lane * GROUP + k % GROUP;
        const auto byte = [&](int line) { return (int)(uint8_t)block[line * LINE_OF_GROUP + place]; };
        if constexpr (BITS == 8) return byte(g);
        const int low = byte(g % 4) >> g / 4 * 4 & 15;
        if constexpr (BITS == 5) return low | (byte(4) >> g & 1) << 4;
        if constexpr (BITS == 6) return low | (byte(4 + g / 4) >> g % 4 * 2 & 3) << 4;
        return low;
    }

  private:
    static inline VecBits bits(const char *from) {
        VecBits v;
        memcpy(&v, from, sizeof v);
        return v;
    }
};

// f.template operator()<Format>() for the format of that number.
template <class F> static inline auto with_format(int format, F f) {
    switch (format) {
    case FR_Q4_0: return f.template operator()<BlockFormat<4, 1, false, 1>>();
    case FR_Q4_1: return f.template operator()<BlockFormat<4, 1, true, 1>>();
    case FR_Q5_0: return f.template operator()<BlockFormat<5, 1, false, 1>>();
    case FR_Q5_1: return f.template operator()<BlockFormat<5, 1, true, 1>>();
    case FR_Q8_0: return f.template operator()<BlockFormat<8, 1, false, 1>>();
    case FR_Q4_K: return f.template operator()<BlockFormat<4, 8, true, 1>>();
    case FR_Q5_K: return f.template operator()<BlockFormat<5, 8, true, 1>>();
    case FR_Q6_K: return f.template operator()<BlockFormat<6, 8, false, 2>>();
    }
    __builtin_trap(); // the caller knows the formats
}

// fp16 to fp32, exactly; infinity and NaN aren't asked for.
static inline Vec load_fp16(const char *from) {
    VecHalf half;
    memcpy(&half, from, sizeof half);
#if defined(__AVX512F__)
    return (Vec)_mm512_cvtph_ps((__m256i)half);
#elif defined(__F16C__)
    return (Vec)_mm256_cvtph_ps((__m128i)half);
#else
    const VecBits wide = __builtin_convertvector(half, VecBits);
    const Vec scaled = (Vec)((wide & 0x7fffu) << 13) * 0x1p112f; // the exponent's bias, 127 - 15
    return (Vec)((VecBits)scaled | (wide & 0x8000u) << 16);
#endif
}
