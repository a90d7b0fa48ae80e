// Linears over packed panels: y[row][output] = sum over k of w[output][k] * x[row][k], k ascending, for every row alike.
//
// A panel is 16 outputs. It is a run of steps of 64 bytes: for bf16 a step is two k (16 pairs), for fp32 one k. Outputs
// are lanes, so a row's sum never meets another row's, and the row count only decides how many rows share a weight that
// was loaded once: rows are cut into tiles whose accumulators fit the registers.
#pragma once
#include <utility>

#include "forerun_kernels.h"
#include "vector.h"

constexpr int PANEL = 16;          // outputs of a panel
constexpr int PARTS = PANEL / W;   // vectors of a panel
constexpr int STEP_BYTES = 64;     // weights of a step
constexpr int K_MULTIPLE = 32;     // inputs are padded with zeros to whole AMX tiles
constexpr int PAIR = 2;            // panels are worked on two at a time

static inline int round_up(int n, int to) { return (n + to - 1) / to * to; }
static inline int num_panel_pairs(int num_outputs) { return round_up(num_outputs, PAIR * PANEL) / (PAIR * PANEL); }

// A kind knows how a step multiplies. `Input` is what a row is prepared into; INPUT_BYTES of it belong to a step.
struct Bf16Kind {
    static constexpr int K_PER_STEP = 2;
#if defined(__AVX512BF16__)
    // Products of bf16 pairs are summed into fp32 by one instruction.
    typedef uint16_t Input;
    static constexpr int INPUT_BYTES = 4;
    typedef Vec Weights;
    static inline Weights weights(const char *step) { return load((const float *)step); }
    static inline Vec add(Vec sum, Weights w, const char *input) {
        int32_t pair;
        memcpy(&pair, input, 4);
        return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)_mm512_set1_epi32(pair));
    }
    static inline void prepare(const float *row, Input *out, int n) {
        for (int i = 0; i < n; i += W) store_bf16(out + i, load(row + i));
    }
#else
    // A bf16 is widened to fp32 by a shift; the row stays fp32.
    typedef float Input;
    static constexpr int INPUT_BYTES = 8;
    struct Weights {
        Vec even, odd;
    };
    static inline Weights weights(const char *step) {
        VecBits bits;
        memcpy(&bits, step, sizeof bits);
        return {(Vec)(bits << 16), (Vec)(bits & 0xffff0000u)};
    }
    static inline Vec add(Vec sum, Weights w, const char *input) {
        float pair[2];
        memcpy(pair, input, 8);
        return fma(w.odd, splat(pair[1]), fma(w.even, splat(pair[0]), sum));
    }
    static inline void prepare(const float *row, Input *out, int n) { memcpy(out, row, n * sizeof(float)); }
#endif
};

struct Fp32Kind {
    static constexpr int K_PER_STEP = 1;
    typedef float Input;
    static constexpr int INPUT_BYTES = 4;
    typedef Vec Weights;
    static inline Weights weights(const char *step) { return load((const float *)step); }
    static inline Vec add(Vec sum, Weights w, const char *input) {
        float x;
        memcpy(&x, input, 4);
        return fma(w, splat(x), sum);
    }
    static inline void prepare(const float *row, Input *out, int n) { memcpy(out, row, n * sizeof(float)); }
};

// One tile: R rows times P neighbouring panels over `num_steps`, into sums [R][PAIR * PANEL].
template <class Kind, int R, int P>
static void multiply_tile(const char *panels, size_t panel_bytes, const char *x, size_t x_stride, int num_steps,
                          float *sums, bool resumes) {
    Vec sum[R][P][PARTS];
    for (int r = 0; r < R; ++r)
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < PARTS; ++v)
                sum[r][p][v] = resumes ? load(sums + (r * PAIR + p) * PANEL + v * W) : Vec{};
    for (int step = 0; step < num_steps; ++step) {
        typename Kind::Weights w[P][PARTS];
#pragma GCC unroll 2
        for (int p = 0; p < P; ++p) {
            const char *at = panels + p * panel_bytes + (size_t)step * STEP_BYTES;
            __builtin_prefetch(at + 2048);
#pragma GCC unroll 4
            for (int v = 0; v < PARTS; ++v) w[p][v] = Kind::weights(at + v * W * 4);
        }
#pragma GCC unroll 24
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
            for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
                for (int v = 0; v < PARTS; ++v)
                    sum[r][p][v] = Kind::add(sum[r][p][v], w[p][v], x + r * x_stride + (size_t)step * Kind::INPUT_BYTES);
    }
    for (int r = 0; r < R; ++r)
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < PARTS; ++v) store(sums + (r * PAIR + p) * PANEL + v * W, sum[r][p][v]);
}

// Rows of a tile with two panels, and of one with a single panel: as many as there are registers for.
#if defined(__AVX512F__)
constexpr int TILE_ROWS = 12, TALL_TILE_ROWS = 24;
#else
constexpr int TILE_ROWS = 4, TALL_TILE_ROWS = 4;
#endif
constexpr int TILE_PANELS = W == 16 ? PAIR : 1;

typedef void (*MultiplyTile)(const char *, size_t, const char *, size_t, int, float *, bool);

template <class Kind, int P, int... R> struct TileTable {
    static constexpr MultiplyTile tiles[] = {multiply_tile<Kind, R + 1, P>...};
};
template <class Kind, int P, class> struct TilesUpTo;
template <class Kind, int P, int... R>
struct TilesUpTo<Kind, P, std::integer_sequence<int, R...>> : TileTable<Kind, P, R...> {};
template <class Kind, int P, int N> using Tiles = TilesUpTo<Kind, P, std::make_integer_sequence<int, N>>;

constexpr int STEPS_IN_CACHE = 512; // of two panels: 64 KB of weights stay close while many rows pass over them

// A pair of panels times all rows into sums [num_rows][PAIR * PANEL].
template <class Kind>
static void multiply_pair(const char *panels, size_t panel_bytes, const char *x, size_t x_stride, int num_rows,
                          int num_steps, float *sums) {
    if (TILE_PANELS == PAIR && num_rows > TILE_ROWS && num_rows <= TALL_TILE_ROWS) {
        // All rows at once, one panel after the other: the weights stream past a single time.
        for (int p = 0; p < PAIR; ++p)
            Tiles<Kind, 1, TALL_TILE_ROWS>::tiles[num_rows - 1](panels + p * panel_bytes, panel_bytes, x, x_stride,
                                                              num_steps, sums + p * PANEL, false);
        return;
    }
    const int num_tiles = (num_rows + TILE_ROWS - 1) / TILE_ROWS;
    const int block = num_tiles == 1 ? num_steps : STEPS_IN_CACHE;
    for (int step = 0; step < num_steps; step += block) {
        const int steps = num_steps - step < block ? num_steps - step : block;
        for (int tile = 0, row = 0; tile < num_tiles; ++tile) {
            const int rows = (num_rows - row + num_tiles - tile - 1) / (num_tiles - tile);
            for (int p = 0; p < PAIR; p += TILE_PANELS)
                Tiles<Kind, TILE_PANELS, TILE_ROWS>::tiles[rows - 1](
                    panels + p * panel_bytes + (size_t)step * STEP_BYTES, panel_bytes,
                    x + row * x_stride + (size_t)step * Kind::INPUT_BYTES, x_stride, steps,
                    sums + row * PAIR * PANEL + p * PANEL, step > 0);
            row += rows;
        }
    }
}

// A linear's rows, prepared: what the kind multiplies with, padded to K_MULTIPLE inputs.
static inline size_t prepared_stride(const fr_linear &linear) {
    const int padded = round_up(linear.num_inputs, K_MULTIPLE);
    return padded * (linear.kind == FR_BF16 ? sizeof(Bf16Kind::Input) : sizeof(float));
}

static inline size_t panel_bytes_of(const fr_linear &linear) {
    const int k_per_step = linear.kind == FR_BF16 ? Bf16Kind::K_PER_STEP : Fp32Kind::K_PER_STEP;
    return (size_t)round_up(linear.num_inputs, K_MULTIPLE) / k_per_step * STEP_BYTES;
}

// `row` is fp32 [num_inputs], readable up to the next multiple of K_MULTIPLE and zero there.
static inline void prepare_row(const fr_linear &linear, const float *row, char *out) {
    const int n = round_up(linear.num_inputs, K_MULTIPLE);
    if (linear.kind == FR_BF16)
        Bf16Kind::prepare(row, (Bf16Kind::Input *)out, n);
    else
        Fp32Kind::prepare(row, (Fp32Kind::Input *)out, n);
}

// Outputs 32 * pair .. 32 * pair + 31 of all rows, without the bias, into sums [num_rows][32].
static inline void multiply(const fr_linear &linear, int pair, const char *x, int num_rows, float *sums) {
    const size_t panel_bytes = panel_bytes_of(linear);
    const char *panels = (const char *)linear.weights + (size_t)pair * PAIR * panel_bytes;
    const int num_steps = (int)(panel_bytes / STEP_BYTES);
    if (linear.kind == FR_BF16)
        multiply_pair<Bf16Kind>(panels, panel_bytes, x, prepared_stride(linear), num_rows, num_steps, sums);
    else
        multiply_pair<Fp32Kind>(panels, panel_bytes, x, prepared_stride(linear), num_rows, num_steps, sums);
}
