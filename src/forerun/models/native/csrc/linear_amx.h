// bf16 linears on AMX tiles. 16 steps of a panel are 32 k of 32 outputs, which is two tiles as they lie; 16 prepared rows
// times 32 k are a third. A product of tiles adds, for every row alone, 16 pairs to that row's sums: the order over k is
// one and the same whatever the number of rows, and a tile has only as many rows as there are.
//
// Registers: sums of rows 0-15 in tiles 0 and 1 (outputs 0-15, 16-31), of rows 16-31 in tiles 2 and 3; 4 and 5 the rows,
// 6 and 7 the weights.
#pragma once
#include "amx_tiles.h"
#include "panel.h"

// What this thread's tiles hold now: nothing, or the shapes for a number of rows.
static thread_local int rows_of_tiles = 0;

static inline void shape_tiles(int num_rows) {
    if (rows_of_tiles == num_rows) return;
    rows_of_tiles = num_rows;
    const int upper = num_rows < TILE_HEIGHT ? num_rows : TILE_HEIGHT, lower = num_rows - upper;
    TileConfig config;
    for (int tile : {0, 1, 4}) config.shape(tile, upper);
    for (int tile : {2, 3, 5}) config.shape(tile, lower);
    for (int tile : {6, 7}) config.shape(tile, TILE_HEIGHT);
    load_tile_config(config);
}

// A task that multiplies has one of these: nobody else finds its thread's tiles shaped, and the kernel has less to save.
struct TilesOfTask {
    ~TilesOfTask() {
        if (rows_of_tiles) release_tiles();
        rows_of_tiles = 0;
    }
};

constexpr int STEPS_PER_TILE = TILE_HEIGHT, INPUT_BYTES_PER_TILE = TILE_BYTES;

template <bool HAS_LOWER>
static void multiply_rows(const char *weights, const char *x, size_t x_stride, int num_steps, float *sums, bool resumes,
                          Asking asking) {
    constexpr size_t SUMS_STRIDE = PANEL * sizeof(float);
    float *lower_sums = sums + TILE_HEIGHT * PANEL;
    if (resumes) {
        load_tile<0>(sums, SUMS_STRIDE);
        load_tile<1>(sums + HALF, SUMS_STRIDE);
        if constexpr (HAS_LOWER) {
            load_tile<2>(lower_sums, SUMS_STRIDE);
            load_tile<3>(lower_sums + HALF, SUMS_STRIDE);
        }
    } else {
        zero_tile<0>();
        zero_tile<1>();
        if constexpr (HAS_LOWER) {
            zero_tile<2>();
            zero_tile<3>();
        }
    }
    for (int step = 0; step < num_steps; step += STEPS_PER_TILE) {
        for (int i = 0; i < STEPS_PER_TILE * asking.stride; i += 64) __builtin_prefetch(asking.next + i);
        asking.next += STEPS_PER_TILE * asking.stride;
        load_tile<6>(weights, STEP_BYTES);
        load_tile<4>(x, x_stride);
        multiply_tiles<0, 4, 6>();
        load_tile<7>(weights + STEP_BYTES / 2, STEP_BYTES);
        multiply_tiles<1, 4, 7>();
        if constexpr (HAS_LOWER) {
            load_tile<5>(x + TILE_HEIGHT * x_stride, x_stride);
            multiply_tiles<2, 5, 6>();
            multiply_tiles<3, 5, 7>();
        }
        weights += STEPS_PER_TILE * STEP_BYTES;
        x += INPUT_BYTES_PER_TILE;
    }
    store_tile<0>(sums, SUMS_STRIDE);
    store_tile<1>(sums + HALF, SUMS_STRIDE);
    if constexpr (HAS_LOWER) {
        store_tile<2>(lower_sums, SUMS_STRIDE);
        store_tile<3>(lower_sums + HALF, SUMS_STRIDE);
    }
}

// A kind (linear.h).
struct AmxBf16 {
    static constexpr int K_PER_STEP = 2, INPUT_BYTES = 4, MOST_ROWS = 2 * TILE_HEIGHT;
    typedef uint16_t Input;
    static inline void prepare(const float *row, Input *out, int n) {
        for (int i = 0; i < n; i += W) store_bf16(out + i, load(row + i));
    }
    static inline void multiply(int num_rows, const char *weights, const char *x, size_t x_stride, int num_steps,
                                float *sums, bool resumes, Asking asking) {
        shape_tiles(num_rows);
        (num_rows > TILE_HEIGHT ? multiply_rows<true> : multiply_rows<false>)(weights, x, x_stride, num_steps, sums, resumes,
                                                                             asking);
    }
};
