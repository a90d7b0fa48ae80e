// Linears over packed panels: y[row][output] = sum over k of w[output][k] * x[row][k], k ascending, for every row alike.
//
// Outputs are lanes, so a row's sum never meets another row's, and the row count only decides how many rows share a weight
// that was loaded once: rows are cut into tiles whose accumulators fit the registers. panel.h says how weights lie.
#pragma once
#include <utility>

#include "linear_blocks.h"
#include "panel.h"

#if defined(__AMX_BF16__) || defined(FR_EMULATE_AMX)
#include "linear_amx.h"
#define FR_HAS_TILES
#endif

// Registers hold the sums of a tile: so many rows of SLICE outputs. Widening bf16 takes registers too.
#if defined(__AVX512F__)
constexpr int SLICE = PANEL, FP32_ROWS = 12, BF16_ROWS = 12;
#elif defined(__AVX2__)
constexpr int SLICE = HALF, FP32_ROWS = 6, BF16_ROWS = 5;
#else
constexpr int SLICE = HALF, FP32_ROWS = 4, BF16_ROWS = 4;
#endif

// How one step multiplies in vectors, in PARTS one after the other. `Input` is what a row is prepared into; INPUT_BYTES of it
// belong to a step.
#if !defined(FR_HAS_TILES)
struct Bf16Step {
    static constexpr int K_PER_STEP = 2, ROWS = BF16_ROWS;
#if defined(__AVX512BF16__)
    // Products of bf16 pairs are summed into fp32 by one instruction.
    typedef uint16_t Input;
    static constexpr int INPUT_BYTES = 4, PARTS = 1;
    static inline Vec weights(const char *step, int) { return load((const float *)step); }
    static inline Vec add(Vec sum, Vec w, const char *input, int) {
        int32_t pair;
        memcpy(&pair, input, 4);
        return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)_mm512_set1_epi32(pair));
    }
    static inline void prepare(const float *row, Input *out, int n) {
        for (int i = 0; i < n; i += W) store_bf16(out + i, load(row + i));
    }
#else
    // A bf16 is widened to fp32 by a shift, even k first, then odd; the row stays fp32. So sums have the bits that the same
    // numbers stored as fp32 would give.
    typedef float Input;
    static constexpr int INPUT_BYTES = 8, PARTS = 2;
    static inline Vec weights(const char *step, int part) {
        VecBits bits;
        memcpy(&bits, step, sizeof bits);
        return (Vec)(part ? bits & 0xffff0000u : bits << 16);
    }
    static inline Vec add(Vec sum, Vec w, const char *input, int part) {
        float x;
        memcpy(&x, input + part * sizeof x, sizeof x);
        return fma(w, splat(x), sum);
    }
    static inline void prepare(const float *row, Input *out, int n) { memcpy(out, row, n * sizeof(float)); }
#endif
};
#endif

struct Fp32Step {
    static constexpr int K_PER_STEP = 1, ROWS = FP32_ROWS;
    typedef float Input;
    static constexpr int INPUT_BYTES = 4, PARTS = 1;
    static inline Vec weights(const char *step, int) { return load((const float *)step); }
    static inline Vec add(Vec sum, Vec w, const char *input, int) {
        float x;
        memcpy(&x, input, 4);
        return fma(w, splat(x), sum);
    }
    static inline void prepare(const float *row, Input *out, int n) { memcpy(out, row, n * sizeof(float)); }
};

// One tile: R rows times a slice of a panel over `num_steps`, into sums [R][PANEL].
template <class Step, int R>
static void multiply_tile(const char *weights, const char *x, size_t x_stride, int num_steps, float *sums, bool resumes,
                          Asking asking) {
    constexpr int V = SLICE / W;
    Vec sum[R][V];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) sum[r][v] = resumes ? load(sums + r * PANEL + v * W) : Vec{};
    for (int step = 0; step < num_steps; ++step) {
        const char *at = weights + (size_t)step * STEP_BYTES;
        const char *next = asking.next + (size_t)step * asking.stride;
        __builtin_prefetch(next);
        __builtin_prefetch(next + 64);
#pragma GCC unroll 2
        for (int part = 0; part < Step::PARTS; ++part) {
            Vec w[V];
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) w[v] = Step::weights(at + v * W * 4, part);
#pragma GCC unroll 12
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
                for (int v = 0; v < V; ++v)
                    sum[r][v] = Step::add(sum[r][v], w[v], x + r * x_stride + (size_t)step * Step::INPUT_BYTES, part);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < V; ++v) store(sums + r * PANEL + v * W, sum[r][v]);
}

typedef void (*MultiplyTile)(const char *, const char *, size_t, int, float *, bool, Asking);

template <class Step, class> struct TilesUpTo;
template <class Step, int... R> struct TilesUpTo<Step, std::integer_sequence<int, R...>> {
    static constexpr MultiplyTile tiles[] = {multiply_tile<Step, R + 1>...};
};
template <class Step> using Tiles = TilesUpTo<Step, std::make_integer_sequence<int, Step::ROWS>>;

// A kind is a way to multiply, of vectors or of AMX tiles: up to MOST_ROWS rows at once times a panel's `num_steps`, into
// sums [num_rows][PANEL].
template <class Step> struct VectorKind : Step {
    static constexpr int MOST_ROWS = Step::ROWS;
    static inline void multiply(int num_rows, const char *weights, const char *x, size_t x_stride, int num_steps,
                                float *sums, bool resumes, Asking asking) {
        for (int first = 0; first < PANEL; first += SLICE)
            Tiles<Step>::tiles[num_rows - 1](weights + first * 4, x, x_stride, num_steps, sums + first, resumes, asking);
    }
};

using Fp32Kind = VectorKind<Fp32Step>;
#if defined(FR_HAS_TILES)
using Bf16Kind = AmxBf16;
#else
using Bf16Kind = VectorKind<Bf16Step>;
struct TilesOfTask {};
#endif

constexpr int STEPS_IN_CACHE = 512; // 64 KB of weights stay close while many rows pass over them

// A panel times all rows into sums [num_rows][PANEL]. Cutting k into blocks changes no bit: sums are kept between them.
template <class Kind>
static void multiply_panel(const char *panel, const char *x, size_t x_stride, int num_rows, int num_steps, float *sums) {
    const int num_tiles = (num_rows + Kind::MOST_ROWS - 1) / Kind::MOST_ROWS;
    const int block = num_tiles == 1 ? num_steps : STEPS_IN_CACHE;
    for (int step = 0; step < num_steps; step += block) {
        const int steps = num_steps - step < block ? num_steps - step : block;
        const char *weights = panel + (size_t)step * STEP_BYTES;
        for (int tile = 0, row = 0; tile < num_tiles; ++tile) {
            const int rows = (num_rows - row + num_tiles - tile - 1) / (num_tiles - tile);
            const Asking asking = num_tiles == 1 ? Asking{weights + AHEAD, STEP_BYTES}
                                                 : Asking{weights + (size_t)steps * STEP_BYTES * (num_tiles + tile) / num_tiles,
                                                          STEP_BYTES / num_tiles};
            Kind::multiply(rows, weights, x + row * x_stride + (size_t)step * Kind::INPUT_BYTES, x_stride, steps,
                           sums + row * PANEL, step > 0, asking);
            row += rows;
        }
    }
}

// A linear's rows, prepared: what the kind multiplies with, padded to K_MULTIPLE inputs.
static inline size_t prepared_stride(const fr_linear &linear) {
    if (linear.kind == FR_BLOCKS) return prepared_block_stride(linear.num_inputs);
    const int padded = round_up(linear.num_inputs, K_MULTIPLE);
    return padded * (linear.kind == FR_BF16 ? sizeof(Bf16Kind::Input) : sizeof(float));
}

static inline size_t panel_bytes_of(const fr_linear &linear) {
    const int k_per_step = linear.kind == FR_BF16 ? Bf16Kind::K_PER_STEP : Fp32Kind::K_PER_STEP;
    return (size_t)round_up(linear.num_inputs, K_MULTIPLE) / k_per_step * STEP_BYTES;
}

// `row` is fp32 [num_inputs], readable up to the next multiple of K_MULTIPLE and zero there.
static inline void prepare_row(const fr_linear &linear, const float *row, char *out) {
    if (linear.kind == FR_BLOCKS) return prepare_blocks(row, linear.num_inputs, out);
    const int n = round_up(linear.num_inputs, K_MULTIPLE);
    if (linear.kind == FR_BF16)
        Bf16Kind::prepare(row, (Bf16Kind::Input *)out, n);
    else
        Fp32Kind::prepare(row, (Fp32Kind::Input *)out, n);
}

// Outputs of one panel for all rows, without the bias, into sums [num_rows][PANEL].
static inline void multiply(const fr_linear &linear, int panel, const char *x, int num_rows, float *sums) {
    if (linear.kind == FR_BLOCKS)
        return multiply_blocks(((const fr_block_panel *)linear.weights)[panel], x, num_rows, linear.num_inputs, sums);
    const size_t panel_bytes = panel_bytes_of(linear);
    const char *weights = (const char *)linear.weights + panel * panel_bytes;
    const int num_steps = (int)(panel_bytes / STEP_BYTES);
    if (linear.kind == FR_BF16)
        multiply_panel<Bf16Kind>(weights, x, prepared_stride(linear), num_rows, num_steps, sums);
    else
        multiply_panel<Fp32Kind>(weights, x, prepared_stride(linear), num_rows, num_steps, sums);
}
