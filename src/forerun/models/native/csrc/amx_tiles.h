// The eight tile registers of AMX: up to 16 rows of 64 bytes each. Compiled for AMX these are the instructions; with
// FR_EMULATE_AMX they are loops over memory that compute what the instructions are documented to compute, so that the
// whole path can be tested on any machine.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vector.h"

constexpr int TILE_HEIGHT = 16, TILE_BYTES = 64, NUM_TILES = 8;

// What a thread's tile registers look like. Must be loaded before anything else is done with them.
struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t num_rows[16] = {};

    void shape(int tile, int rows) {
        num_rows[tile] = (uint8_t)rows;
        row_bytes[tile] = rows ? TILE_BYTES : 0;
    }
};

#if defined(FR_EMULATE_AMX)

struct EmulatedTiles {
    TileConfig config;
    bool is_configured = false;
    char memory[NUM_TILES][TILE_HEIGHT][TILE_BYTES];

    // Rows of a tile that may be used now; the instructions fault where this ends the process.
    int rows(int tile) const {
        if (!is_configured || !config.num_rows[tile]) abort();
        return config.num_rows[tile];
    }
};
static thread_local EmulatedTiles emulated_tiles;

static inline bool may_use_tiles() { return true; }
static inline void load_tile_config(const TileConfig &config) {
    emulated_tiles = {};
    emulated_tiles.config = config;
    emulated_tiles.is_configured = true;
}
static inline void release_tiles() { emulated_tiles.is_configured = false; }
template <int T> static inline void zero_tile() { memset(emulated_tiles.memory[T], 0, emulated_tiles.rows(T) * TILE_BYTES); }
template <int T> static inline void load_tile(const void *from, size_t stride) {
    for (int r = 0; r < emulated_tiles.rows(T); ++r)
        memcpy(emulated_tiles.memory[T][r], (const char *)from + r * stride, TILE_BYTES);
}
template <int T> static inline void store_tile(void *to, size_t stride) {
    for (int r = 0; r < emulated_tiles.rows(T); ++r)
        memcpy((char *)to + r * stride, emulated_tiles.memory[T][r], TILE_BYTES);
}
// SUM[row][n] += the products of row pairs k of A with B[k][n]: first halves and second halves each summed, k ascending.
template <int SUM, int A, int B> static inline void multiply_tiles() {
    constexpr int N = TILE_BYTES / 4;
    if (emulated_tiles.rows(A) != emulated_tiles.rows(SUM) || emulated_tiles.rows(B) != TILE_HEIGHT) abort();
    for (int r = 0; r < emulated_tiles.rows(SUM); ++r) {
        float halves[2][N] = {}, sum[N];
        for (int k = 0; k < N; ++k)
            for (int half = 0; half < 2; ++half) {
                uint16_t a, b[2 * N];
                memcpy(&a, emulated_tiles.memory[A][r] + 4 * k + 2 * half, 2);
                memcpy(b, emulated_tiles.memory[B][k], sizeof b);
                for (int n = 0; n < N; ++n) halves[half][n] += from_bf16(a) * from_bf16(b[2 * n + half]);
            }
        memcpy(sum, emulated_tiles.memory[SUM][r], sizeof sum);
        for (int n = 0; n < N; ++n) sum[n] += halves[0][n] + halves[1][n];
        memcpy(emulated_tiles.memory[SUM][r], sum, sizeof sum);
    }
}

#else

#include <sys/syscall.h>
#include <unistd.h>

// Linux grants a process its tile registers when it asks (ARCH_REQ_XCOMP_PERM, XTILEDATA); all its threads have them then.
static inline bool may_use_tiles() { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

// Written here because the compilers' own wrappers need literal register numbers, and gcc 12's reads only eight bytes of
// the configuration as far as the optimiser knows.
static inline void load_tile_config(const TileConfig &config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
static inline void release_tiles() { asm volatile("tilerelease" ::: "memory"); }
template <int T> static inline void zero_tile() { asm volatile("tilezero %%tmm%c0" ::"i"(T)); }
template <int T> static inline void load_tile(const void *from, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
}
template <int T> static inline void store_tile(void *to, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
}
template <int SUM, int A, int B> static inline void multiply_tiles() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUM), "i"(A), "i"(B));
}

#endif
