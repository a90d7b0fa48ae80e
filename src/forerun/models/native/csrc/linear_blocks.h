// Linears over blocks of a GGUF file as shipped (block_format.h): 4 to 8 bits a weight, int8 activations.
//
// A row is cut into blocks of 32 with amax / 127 as their scale. Per row, output and span of a block the products are summed
// exactly in int32; the spans' sums are scaled and added in fp32, k ascending. So no sum depends on other rows.
#pragma once
#include <math.h>

#include <utility>

#include "block_format.h"

// 32 inputs of a row. `minus_sums` of the int8 numbers, 16 each, take the weights' OFFSET back out.
struct BlockInput {
    int8_t numbers[BLOCK];
    float scale, sum;
    int32_t minus_sums[2];
};

static inline size_t prepared_block_stride(int num_inputs) { return (size_t)(num_inputs + BLOCK - 1) / BLOCK * sizeof(BlockInput); }

static inline float largest_lane(Vec v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    return max_lanes(v);
#endif
}

// NaN if a lane is NaN, else 0.
static inline float any_lane_nan(Vec v) {
    const VecInt is_nan = v != v;
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)is_nan, (__m512i)is_nan) ? NAN : 0.0f;
#else
    int32_t any = 0;
    for (int i = 0; i < W; ++i) any |= is_nan[i];
    return any ? NAN : 0.0f;
#endif
}

static inline int sum_of_numbers(const int8_t *numbers) {
#if defined(__SSE2__)
    // Distances from zero are summed for unsigned bytes, so 128 is added to each.
    const __m128i shifted = _mm_xor_si128(_mm_loadu_si128((const __m128i *)numbers), _mm_set1_epi8(-128));
    const __m128i eights = _mm_sad_epu8(shifted, _mm_setzero_si128());
    return _mm_cvtsi128_si32(eights) + _mm_extract_epi16(eights, 4) - 16 * 128;
#else
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += numbers[i];
    return sum;
#endif
}

// fp32 [BLOCK] to int8, to nearest, ties to even. So small a block that 1 / scale isn't finite is zero; a NaN or an
// infinity makes the scale NaN, and with it every output.
static inline void prepare_block(const float *row, BlockInput *out) {
    Vec most{}, strange{};
    for (int i = 0; i < BLOCK; i += W) {
        const Vec v = load(row + i);
        most = max(most, max(v, -v));
        strange += v - v; // 0, or NaN
    }
    const float largest = largest_lane(most), inverse = largest < 1e-30f ? 0.0f : 127.0f / largest;
    const Vec rounder = splat(12582912.0f); // 1.5 * 2^23: adding it rounds to a whole number
    for (int i = 0; i < BLOCK; i += W) {
        const Vec whole = (load(row + i) * inverse + rounder) - rounder;
#if defined(__AVX512F__)
        _mm_storeu_si128((__m128i *)(out->numbers + i), _mm512_cvtepi32_epi8(_mm512_cvttps_epi32((__m512)whole)));
#else
        const VecByte bytes = __builtin_convertvector(__builtin_convertvector(whole, VecInt), VecByte);
        memcpy(out->numbers + i, &bytes, sizeof bytes);
#endif
    }
    const int first = sum_of_numbers(out->numbers), second = sum_of_numbers(out->numbers + 16);
    out->scale = (largest < 1e-30f ? 0.0f : largest / 127.0f) + any_lane_nan(strange);
    out->sum = (float)(first + second);
    out->minus_sums[0] = -first;
    out->minus_sums[1] = -second;
}

static inline void prepare_blocks(const float *row, int num_inputs, char *out) {
    for (int k = 0; k < num_inputs; k += BLOCK, out += sizeof(BlockInput)) prepare_block(row + k, (BlockInput *)out);
}

// The exact sum of a span's products, group by group (`i` counts them): in every lane four unsigned weights of BITS bits
// times the same four int8.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
template <int BITS> struct SpanSum {
    VecInt total;
    inline void add(VecBits weights, int32_t inputs, int) {
#if defined(__AVX512VNNI__)
        total = (VecInt)_mm512_dpbusd_epi32((__m512i)total, (__m512i)weights, _mm512_set1_epi32(inputs));
#else
        total = (VecInt)_mm256_dpbusd_avx_epi32((__m256i)total, (__m256i)weights, _mm256_set1_epi32(inputs));
#endif
    }
};
#elif defined(__AVX2__)
typedef int16_t VecPairs __attribute__((vector_size(W * 4))); // two sums of two products a lane

static inline VecPairs multiply_bytes(VecBits weights, int32_t inputs) {
#if defined(__AVX512BW__)
    return (VecPairs)_mm512_maddubs_epi16((__m512i)weights, _mm512_set1_epi32(inputs));
#else
    return (VecPairs)_mm256_maddubs_epi16((__m256i)weights, _mm256_set1_epi32(inputs));
#endif
}

static inline VecInt sum_of_pairs(VecPairs pairs) {
#if defined(__AVX512BW__)
    return (VecInt)_mm512_madd_epi16((__m512i)pairs, _mm512_set1_epi16(1));
#else
    return (VecInt)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(1));
#endif
}

template <int BITS> struct SpanSum {
    static constexpr int RUN = 1 << (7 - BITS); // groups whose sum is sure to fit 16 bits: 8, 4 or 2
    VecInt total;
    VecPairs run;
    inline void add(VecBits weights, int32_t inputs, int i) {
        const VecPairs products = multiply_bytes(weights, inputs);
        run = i % RUN ? run + products : products;
        if (i % RUN == RUN - 1) total += sum_of_pairs(run);
    }
};

// Two products of eight bits may not fit: low and high nibbles are multiplied apart.
template <> struct SpanSum<8> {
    VecInt total;
    VecPairs low, high;
    inline void add(VecBits weights, int32_t inputs, int i) {
        const VecPairs low_products = multiply_bytes(weights & 0x0f0f0f0fu, inputs);
        const VecPairs high_products = multiply_bytes(weights >> 4 & 0x0f0f0f0fu, inputs);
        low = i ? low + low_products : low_products;
        high = i ? high + high_products : high_products;
        if (i == GROUPS - 1) total += sum_of_pairs(low) + (sum_of_pairs(high) << 4);
    }
};
#else
template <int BITS> struct SpanSum {
    VecInt total;
    inline void add(VecBits weights, int32_t inputs, int) {
        for (int i = 0; i < GROUP; ++i) total += (VecInt)(weights >> 8 * i & 255u) * (int32_t)(int8_t)(inputs >> 8 * i);
    }
};
#endif

// Registers hold two sums for each row of a tile and output of a slice, the span's and the whole one.
#if defined(__AVX512F__)
constexpr int BLOCK_ROWS = 6, BLOCK_SLICE = 32;
#elif defined(__AVX2__)
constexpr int BLOCK_ROWS = 4, BLOCK_SLICE = 16;
#else
constexpr int BLOCK_ROWS = 3, BLOCK_SLICE = 16;
#endif

// What is asked for ahead: while unit u is worked on, the bytes from next + u * stride, `lines` cache lines a block.
struct BlockAsking {
    const char *next;
    size_t stride;
    int lines;
};

// One tile: R rows times a slice of outputs over `num_units`, into sums [R][32]. `lane` is the slice's first output.
template <class Format, int R>
static void multiply_block_tile(const char *unit, int lane, const char *x, size_t x_stride, int num_units, float *sums,
                                bool resumes, BlockAsking asking) {
    constexpr int V = BLOCK_SLICE / W, SPAN_GROUPS = GROUPS / Format::SPANS;
    static_assert(Format::BITS == 6 || Format::SPANS == 1); // a span has whole runs (SpanSum)
    Vec sum[R][V];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) sum[r][v] = resumes ? load(sums + r * 32 + v * W) : Vec{};
    for (int u = 0; u < num_units; ++u, unit += Format::UNIT_BYTES) {
        const char *block = unit + Format::HEADER, *next = asking.next + u * asking.stride;
        for (int b = 0; b < Format::BLOCKS; ++b, block += Format::BLOCK_BYTES, x += sizeof(BlockInput)) {
            for (int line = 0; line < asking.lines; ++line, next += 64) __builtin_prefetch(next);
            const char *scales = block + Format::WEIGHTS;
#pragma GCC unroll 2
            for (int span = 0; span < Format::SPANS; ++span) {
                SpanSum<Format::BITS> products[R][V];
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    const BlockInput &input = *(const BlockInput *)(x + r * x_stride);
                    VecInt start{};
                    if constexpr (!Format::HAS_MIN) {
                        const int32_t minus = Format::SPANS == 2 ? input.minus_sums[span] : input.minus_sums[0] + input.minus_sums[1];
                        start = (minus - VecInt{}) << Format::OFFSET_SHIFT;
                    }
#pragma GCC unroll 4
                    for (int v = 0; v < V; ++v) products[r][v].total = start;
                }
#pragma GCC unroll 8
                for (int i = 0; i < SPAN_GROUPS; ++i) {
                    // Groups whose nibbles share a load come one after the other.
                    const int g = Format::SPANS == 2 ? span * SPAN_GROUPS + i : i / 2 + i % 2 * 4;
                    VecBits weights[V];
#pragma GCC unroll 4
                    for (int v = 0; v < V; ++v) weights[v] = Format::group(block + (lane + v * W) * GROUP, g);
#pragma GCC unroll 8
                    for (int r = 0; r < R; ++r) {
                        int32_t inputs;
                        memcpy(&inputs, x + r * x_stride + g * GROUP, GROUP);
#pragma GCC unroll 4
                        for (int v = 0; v < V; ++v)
                            products[r][v].add(weights[v], inputs, i);
                    }
                }
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) {
                    const int at = lane + v * W;
                    Vec scale, least{};
                    if constexpr (Format::IS_SUPER) {
                        scale = load_fp16(unit + at * 2) * load_int8((const int8_t *)scales + span * 32 + at);
                        if constexpr (Format::HAS_MIN)
                            least = -(load_fp16(unit + 64 + at * 2) * load_int8((const int8_t *)scales + 32 + at));
                    } else {
                        scale = load_fp16(scales + at * 2);
                        if constexpr (Format::HAS_MIN) least = load_fp16(scales + 64 + at * 2);
                    }
#pragma GCC unroll 8
                    for (int r = 0; r < R; ++r) {
                        const BlockInput &input = *(const BlockInput *)(x + r * x_stride);
                        Vec value = __builtin_convertvector(products[r][v].total, Vec) * scale;
                        if constexpr (Format::HAS_MIN) value = fma(least, splat(input.sum), value);
                        sum[r][v] = fma(value, splat(input.scale), sum[r][v]);
                    }
                }
            }
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) store(sums + r * 32 + v * W, sum[r][v]);
}

typedef void (*MultiplyBlockTile)(const char *, int, const char *, size_t, int, float *, bool, BlockAsking);

template <class Format, class> struct BlockTilesUpTo;
template <class Format, int... R> struct BlockTilesUpTo<Format, std::integer_sequence<int, R...>> {
    static constexpr MultiplyBlockTile tiles[] = {multiply_block_tile<Format, R + 1>...};
};
template <class Format> using BlockTiles = BlockTilesUpTo<Format, std::make_integer_sequence<int, BLOCK_ROWS>>;

constexpr int BLOCK_BYTES_IN_CACHE = 32768;
constexpr int BLOCK_AHEAD = 8192;

// A panel times all rows into sums [num_rows][32]. As in linear.h: one tile streams, several share what is in the cache.
template <class Format>
static void multiply_block_panel(const char *panel, const char *x, size_t x_stride, int num_rows, int num_inputs, float *sums) {
    const int num_tiles = (num_rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const int num_units = (num_inputs + Format::UNIT_INPUTS - 1) / Format::UNIT_INPUTS;
    // Runs of one length, so that what is asked for during a run is the next one.
    const int num_runs = num_tiles == 1 ? 1 : (num_units * Format::UNIT_BYTES - 1) / BLOCK_BYTES_IN_CACHE + 1;
    const int at_once = (num_units + num_runs - 1) / num_runs;
    constexpr int LINES = (Format::UNIT_BYTES / 64 + Format::BLOCKS - 1) / Format::BLOCKS; // of a block
    for (int unit = 0; unit < num_units; unit += at_once) {
        const int units = num_units - unit < at_once ? num_units - unit : at_once;
        const char *weights = panel + (size_t)unit * Format::UNIT_BYTES;
        const char *inputs = x + (size_t)unit * Format::BLOCKS * sizeof(BlockInput);
        for (int tile = 0, row = 0; tile < num_tiles; ++tile) {
            const int rows = (num_rows - row + num_tiles - tile - 1) / (num_tiles - tile);
            const size_t part = Format::UNIT_BYTES / num_tiles; // of each unit of the next run, asked for by this tile
            const BlockAsking asking = num_tiles == 1 ? BlockAsking{weights + BLOCK_AHEAD, Format::UNIT_BYTES, LINES}
                                                      : BlockAsking{weights + units * (Format::UNIT_BYTES + tile * part), part,
                                                                    (LINES + num_tiles - 1) / num_tiles};
            for (int lane = 0; lane < 32; lane += BLOCK_SLICE)
                BlockTiles<Format>::tiles[rows - 1](weights, lane, inputs + row * x_stride, x_stride, units,
                                                    sums + row * 32 + lane, unit > 0, asking);
            row += rows;
        }
    }
}

static inline void multiply_blocks(const fr_block_panel &panel, const char *x, int num_rows, int num_inputs, float *sums) {
    with_format(panel.format, [&]<class Format> {
        multiply_block_panel<Format>((const char *)panel.blocks, x, prepared_block_stride(num_inputs), num_rows, num_inputs, sums);
    });
}
