// Blocks from the rows of a GGUF file to panels (all zero before), and rows back as fp32.
#pragma once
#include "linear_blocks.h"

// A unit as the file holds it, taken apart: unsigned weights, and scales and mins as they are stored.
struct StoredUnit {
    uint8_t weights[256];
    uint16_t scale, min;                         // fp16, of the unit
    uint8_t block_scales[8][2], block_mins[8];   // within a super-block
};

static inline uint16_t half_at(const uint8_t *from) {
    uint16_t half;
    memcpy(&half, from, 2);
    return half;
}

// fp16 scale [, fp16 min] [, fifth bits], nibbles: weight i beside weight i + 16.
template <class Format> static const uint8_t *read_plain(const uint8_t *at, StoredUnit &unit) {
    unit.scale = half_at(at);
    at += 2;
    if (Format::HAS_MIN) {
        unit.min = half_at(at);
        at += 2;
    }
    if (Format::BITS == 8) {
        for (int i = 0; i < 32; ++i) unit.weights[i] = at[i] ^ 128;
        return at + 32;
    }
    uint32_t fifth = 0;
    if (Format::BITS == 5) {
        memcpy(&fifth, at, 4);
        at += 4;
    }
    for (int i = 0; i < 16; ++i) {
        unit.weights[i] = (at[i] & 15) | (fifth >> i & 1) << 4;
        unit.weights[i + 16] = at[i] >> 4 | (fifth >> (i + 16) & 1) << 4;
    }
    return at + 16;
}

// Q4_K, Q5_K: fp16 scale and min, eight 6-bit scales and mins in 12 bytes [, fifth bits], nibbles of block 2i beside 2i + 1.
template <class Format> static const uint8_t *read_super(const uint8_t *at, StoredUnit &unit) {
    unit.scale = half_at(at);
    unit.min = half_at(at + 2);
    at += 4;
    for (int b = 0; b < 4; ++b) {
        unit.block_scales[b][0] = at[b] & 63;
        unit.block_mins[b] = at[b + 4] & 63;
        unit.block_scales[b + 4][0] = (at[b + 8] & 15) | at[b] >> 6 << 4;
        unit.block_mins[b + 4] = at[b + 8] >> 4 | at[b + 4] >> 6 << 4;
    }
    at += 12;
    const uint8_t *fifth = at;
    if (Format::BITS == 5) at += 32;
    for (int b = 0; b < 8; ++b)
        for (int i = 0; i < 32; ++i) {
            const int high = Format::BITS == 5 ? (fifth[i] >> b & 1) << 4 : 0;
            unit.weights[b * 32 + i] = (at[b / 2 * 32 + i] >> b % 2 * 4 & 15) | high;
        }
    return at + 128;
}

// Q6_K: low nibbles, upper two bits, sixteen int8 scales, fp16 scale. Each half has 128 weights, in four runs of 32.
static const uint8_t *read_q6_k(const uint8_t *at, StoredUnit &unit) {
    const uint8_t *low = at, *high = at + 128, *scales = at + 192;
    for (int half = 0; half < 2; ++half)
        for (int run = 0; run < 4; ++run)
            for (int i = 0; i < 32; ++i) {
                const int nibble = low[half * 64 + run % 2 * 32 + i] >> run / 2 * 4 & 15;
                unit.weights[half * 128 + run * 32 + i] = nibble | (high[half * 32 + i] >> run * 2 & 3) << 4;
            }
    memcpy(unit.block_scales, scales, 16);
    unit.scale = half_at(at + 208);
    return at + 210;
}

template <class Format> static const uint8_t *read_unit(const uint8_t *at, StoredUnit &unit) {
    if constexpr (Format::BITS == 6) return read_q6_k(at, unit);
    if constexpr (Format::IS_SUPER) return read_super<Format>(at, unit);
    return read_plain<Format>(at, unit);
}

// The weights of one block of one output into its lane (block_format.h).
template <class Format> static void place_weights(const uint8_t *weights, char *block, int lane) {
    uint8_t lines[Format::WEIGHTS / LINE_OF_GROUP][GROUP] = {}; // four bytes of every line
    for (int g = 0; g < GROUPS; ++g)
        for (int i = 0; i < GROUP; ++i) {
            const int weight = weights[g * GROUP + i];
            if constexpr (Format::BITS == 8) {
                lines[g][i] = weight;
                continue;
            }
            lines[g % 4][i] |= (weight & 15) << g / 4 * 4;
            if constexpr (Format::BITS == 5) lines[4][i] |= weight >> 4 << g;
            if constexpr (Format::BITS == 6) lines[4 + g / 4][i] |= weight >> 4 << g % 4 * 2;
        }
    for (size_t line = 0; line < sizeof lines / GROUP; ++line)
        memcpy(block + line * LINE_OF_GROUP + lane * GROUP, lines[line], GROUP);
}

template <class Format> static void place_unit(const StoredUnit &unit, char *at, int lane) {
    char *halves = Format::IS_SUPER ? at : at + Format::WEIGHTS;
    memcpy(halves + lane * 2, &unit.scale, 2);
    if (Format::HAS_MIN) memcpy(halves + 64 + lane * 2, &unit.min, 2);
    for (int b = 0; b < Format::BLOCKS; ++b) {
        char *block = at + Format::HEADER + b * Format::BLOCK_BYTES;
        place_weights<Format>(unit.weights + b * BLOCK, block, lane);
        if constexpr (Format::IS_SUPER) {
            char *bytes = block + Format::WEIGHTS;
            for (int span = 0; span < Format::SPANS; ++span) bytes[span * 32 + lane] = (char)unit.block_scales[b][span];
            if (Format::HAS_MIN) bytes[32 + lane] = (char)unit.block_mins[b];
        }
    }
}

static inline bool is_finite_half(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

// Half panel i of the rows becomes half panel first + i * stride. False where a scale isn't finite.
static bool pack_blocks(int format, const void *rows, int num_outputs, int num_inputs, const fr_block_panel *panels, int first,
                        int stride) {
    return with_format(format, [&]<class Format> {
        const uint8_t *at = (const uint8_t *)rows;
        bool is_finite = true;
        for (int o = 0; o < num_outputs; ++o) {
            const int half = first + o / 16 * stride, lane = half % 2 * 16 + o % 16;
            char *unit = (char *)panels[half / 2].blocks;
            for (int k = 0; k < num_inputs; k += Format::UNIT_INPUTS, unit += Format::UNIT_BYTES) {
                StoredUnit stored;
                stored.min = 0;
                at = read_unit<Format>(at, stored);
                is_finite &= is_finite_half(stored.scale) && is_finite_half(stored.min);
                place_unit<Format>(stored, unit, lane);
            }
        }
        return is_finite;
    });
}

static float fp16_at(const char *from) {
    char halves[W * 2] = {};
    memcpy(halves, from, 2);
    return load_fp16(halves)[0];
}

// One row of a panel, the numbers that the file stands for.
static void unpack_block_row(const fr_block_panel &panel, int lane, int num_inputs, float *row) {
    with_format(panel.format, [&]<class Format> {
        for (int k = 0; k < num_inputs; ++k) {
            const char *unit = (const char *)panel.blocks + (size_t)(k / Format::UNIT_INPUTS) * Format::UNIT_BYTES;
            const char *block = unit + Format::HEADER + k % Format::UNIT_INPUTS / BLOCK * Format::BLOCK_BYTES;
            const char *scales = block + Format::WEIGHTS, *halves = Format::IS_SUPER ? unit : scales;
            const int span = Format::SPANS == 2 ? k % BLOCK / 16 : 0;
            float scale = fp16_at(halves + lane * 2), least = Format::HAS_MIN ? fp16_at(halves + 64 + lane * 2) : 0.0f;
            if constexpr (Format::IS_SUPER) {
                scale *= (int8_t)scales[span * 32 + lane];
                if constexpr (Format::HAS_MIN) least *= -(int8_t)scales[32 + lane];
            }
            const float product = scale * (float)(Format::weight(block, lane, k % BLOCK) - Format::OFFSET);
            row[k] = Format::HAS_MIN ? product + least : product;
        }
    });
}
