// Attention over the pool. Keys are taken in position order through the group's slot table, so that it makes no
// difference where they lie, and in chunks counted from position 0.
//
// Within a chunk a row takes the maximum of its scores, the weights e^(score - maximum), their sum and the weighted sum
// of values, keys ascending; chunks are merged in order. Rows of a tile share only the loading of keys and values. What
// a row can't see adds an exact zero, or is skipped. Chunks may be worked on by different threads: they are merged in
// the same order either way.
#pragma once
#include <math.h>

#include "forerun_kernels.h"
#include "rows.h"
#include "vector.h"

constexpr int TILE = 16;       // rows of a tile
constexpr int CHUNK = 256;     // keys of a chunk
constexpr int KEY_BLOCK = 64;  // keys that are loaded at a time
constexpr int QUERIES = 4;     // queries whose sums are in registers at a time
constexpr int KEY_VECTORS = KEY_BLOCK / W;

static_assert(KEY_BLOCK % W == 0 && CHUNK % KEY_BLOCK == 0, "blocks are whole vectors, chunks whole blocks");

// Rows of one group that share key loads. All heads of one kv head: query r * shared + h is head h of row r.
struct AttentionTile {
    const int64_t *rows;  // [num_rows] of the pass
    const int64_t *slots; // the group's table by position
    int num_rows, first_key, num_keys; // keys that any of the rows sees
};

struct PoolLayer {
    int kind, num_kv_heads, head_dim;
    const char *keys, *values;
    const float *key_scales, *value_scales;
};

// Running result of `num_queries` queries: the maximum, the sum of weights, the weighted sum of values [padded width].
// sum == 0: nothing seen yet.
struct Partial {
    float *maximum, *sum, *mixed;
};

struct AttentionScratch {
    float *keys;    // [head_dim][KEY_BLOCK]
    float *values;  // [KEY_BLOCK][width]
    float *scores;  // [queries][CHUNK]
    float *queries; // [queries][width], scaled
    Partial chunk, total;
};

struct AttentionSettings {
    float softcap;
    int window;
};

static inline size_t pool_row_bytes(const PoolLayer &layer) {
    return (size_t)layer.head_dim * (layer.kind == FR_FP32 ? 4 : layer.kind == FR_BF16 ? 2 : 1);
}

// Asks for what load_block will read next: keys lie scattered, and no prefetcher guesses a slot table. Inlined, because
// gcc takes a function that only prefetches for one that does nothing, and drops its calls.
__attribute__((always_inline)) static inline void ask_block(const PoolLayer &layer, const char *pool, const int64_t *slots, int count, int kv_head) {
    const size_t bytes = pool_row_bytes(layer);
    for (int key = 0; key < count; ++key) {
        const char *row = pool + ((size_t)slots[key] * layer.num_kv_heads + kv_head) * bytes;
        for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
    }
}

// One head of the keys or values at `count` positions into rows [KEY_BLOCK][width]; missing ones are zero.
static void load_block(const PoolLayer &layer, const char *pool, const float *scales, const int64_t *slots, int count,
                       int kv_head, int width, float *rows) {
    const size_t bytes = pool_row_bytes(layer);
    for (int key = 0; key < count; ++key) {
        const size_t at = (size_t)slots[key] * layer.num_kv_heads + kv_head;
        load_head(layer.kind, pool + at * bytes, scales ? scales[at] : 1.0f, layer.head_dim, rows + key * width);
    }
    memset(rows + count * width, 0, (size_t)(KEY_BLOCK - count) * width * sizeof(float));
}

// [KEY_BLOCK][width] -> [width][KEY_BLOCK]
static void transpose_block(const float *rows, int width, float *columns) {
    for (int key = 0; key < KEY_BLOCK; key += W)
        for (int d = 0; d < width; d += W) {
            Vec square[W];
            for (int i = 0; i < W; ++i) square[i] = load(rows + (key + i) * width + d);
            transpose(square);
            for (int i = 0; i < W; ++i) store(columns + (d + i) * KEY_BLOCK + key, square[i]);
        }
}

// Scores of Q queries against a block of keys: sum over d, ascending.
template <int Q>
static void score_block(const float *queries, int width, int head_dim, const float *columns, float *scores) {
    constexpr int AT_ONCE = KEY_VECTORS < 4 ? KEY_VECTORS : 4;
    for (int part = 0; part < KEY_VECTORS; part += AT_ONCE) {
        Vec sum[Q][AT_ONCE];
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < AT_ONCE; ++v) sum[q][v] = Vec{};
        for (int d = 0; d < head_dim; ++d)
#pragma GCC unroll 4
            for (int v = 0; v < AT_ONCE; ++v) {
                const Vec keys = load(columns + d * KEY_BLOCK + (part + v) * W);
#pragma GCC unroll 4
                for (int q = 0; q < Q; ++q) sum[q][v] = fma(splat(queries[q * width + d]), keys, sum[q][v]);
            }
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < AT_ONCE; ++v) store(scores + q * CHUNK + (part + v) * W, sum[q][v]);
    }
}

// Adds weight * value of `count` keys to the mixed values of Q queries, V vectors from column d on, keys ascending.
template <int Q, int V>
static void mix_block(const float *weights, const float *values, int width, int count, int d, float *mixed) {
    Vec sum[Q][V];
    for (int q = 0; q < Q; ++q)
        for (int v = 0; v < V; ++v) sum[q][v] = load(mixed + q * width + d + v * W);
    for (int key = 0; key < count; ++key)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            const Vec value = load(values + key * width + d + v * W);
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) sum[q][v] = fma(splat(weights[q * CHUNK + key]), value, sum[q][v]);
        }
    for (int q = 0; q < Q; ++q)
        for (int v = 0; v < V; ++v) store(mixed + q * width + d + v * W, sum[q][v]);
}

template <int Q>
static void mix_queries(const float *weights, const float *values, int width, int count, float *mixed) {
    int d = 0;
    for (; d + 4 * W <= width; d += 4 * W) mix_block<Q, 4>(weights, values, width, count, d, mixed);
    for (; d < width; d += W) mix_block<Q, 1>(weights, values, width, count, d, mixed);
}

// Scores [CHUNK] of one query become weights in place; keys outside begin .. end - 1 get none. Returns their sum.
static float to_weights(float *scores, int begin, int end, int num_vectors, float softcap, float *maximum) {
    const float lowest = -INFINITY;
    const VecInt lanes = lane_numbers();
    Vec largest = splat(lowest);
    for (int v = 0; v < num_vectors; ++v) {
        Vec score = load(scores + v * W);
        if (softcap != 0.0f) score = tanh(score / softcap) * softcap;
        const VecInt key = lanes + v * W;
        score = (key >= begin) & (key < end) ? score : splat(lowest);
        store(scores + v * W, score);
        largest = max(largest, score);
    }
    *maximum = max_lanes(largest);
    Vec sum{};
    for (int v = 0; v < num_vectors; ++v) {
        const VecInt key = lanes + v * W;
        const Vec weight = exp_bounded(load(scores + v * W) - *maximum);
        const Vec seen = (key >= begin) & (key < end) ? weight : Vec{};
        store(scores + v * W, seen);
        sum += seen;
    }
    return sum_lanes(sum);
}

// One chunk of one kv head for all queries of a tile, into scratch.chunk.
static void attend_chunk(const AttentionTile &tile, const int64_t *positions, const PoolLayer &layer, int kv_head,
                         int shared, int chunk, const AttentionSettings &settings, const AttentionScratch &scratch,
                         int width) {
    const int num_queries = tile.num_rows * shared;
    const int first = chunk * CHUNK;
    const int num_keys = tile.num_keys - first < CHUNK ? tile.num_keys - first : CHUNK;
    const int64_t *slots = tile.slots + first;
    const auto count_at = [&](int block) { return num_keys - block < KEY_BLOCK ? num_keys - block : KEY_BLOCK; };
    ask_block(layer, layer.keys, slots, count_at(0), kv_head);
    for (int block = 0; block < num_keys; block += KEY_BLOCK) {
        const int count = count_at(block), next = block + KEY_BLOCK;
        if (next < num_keys)
            ask_block(layer, layer.keys, slots + next, count_at(next), kv_head);
        else
            ask_block(layer, layer.values, slots, count_at(0), kv_head);
        load_block(layer, layer.keys, layer.key_scales, slots + block, count, kv_head, width,
                   scratch.values);
        transpose_block(scratch.values, width, scratch.keys);
        int q = 0;
        for (; q + QUERIES <= num_queries; q += QUERIES)
            score_block<QUERIES>(scratch.queries + q * width, width, layer.head_dim, scratch.keys,
                                 scratch.scores + q * CHUNK + block);
        for (; q < num_queries; ++q)
            score_block<1>(scratch.queries + q * width, width, layer.head_dim, scratch.keys,
                           scratch.scores + q * CHUNK + block);
    }
    const int num_vectors = (num_keys + W - 1) / W;
    for (int q = 0; q < num_queries; ++q) {
        const int position = (int)positions[tile.rows[q / shared]];
        const int begin = settings.window && position - settings.window + 1 > first ? position - settings.window + 1 - first : 0;
        const int end = position + 1 - first < num_keys ? position + 1 - first : num_keys;
        scratch.chunk.sum[q] = 0.0f;
        if (begin < end)
            scratch.chunk.sum[q] = to_weights(scratch.scores + q * CHUNK, begin, end, num_vectors, settings.softcap,
                                              scratch.chunk.maximum + q);
        else
            memset(scratch.scores + q * CHUNK, 0, num_keys * sizeof(float));
    }
    memset(scratch.chunk.mixed, 0, (size_t)num_queries * width * sizeof(float));
    for (int block = 0; block < num_keys; block += KEY_BLOCK) {
        const int count = count_at(block), next = block + KEY_BLOCK;
        if (next < num_keys) ask_block(layer, layer.values, slots + next, count_at(next), kv_head);
        load_block(layer, layer.values, layer.value_scales, slots + block, count, kv_head, width,
                   scratch.values);
        int q = 0;
        for (; q + QUERIES <= num_queries; q += QUERIES)
            mix_queries<QUERIES>(scratch.scores + q * CHUNK + block, scratch.values, width, count,
                                 scratch.chunk.mixed + q * width);
        for (; q < num_queries; ++q)
            mix_queries<1>(scratch.scores + q * CHUNK + block, scratch.values, width, count,
                           scratch.chunk.mixed + q * width);
    }
}

// total and then chunk, as if their keys had been one range.
static void merge(Partial total, Partial chunk, int num_queries, int width) {
    for (int q = 0; q < num_queries; ++q) {
        if (chunk.sum[q] == 0.0f) continue;
        float *to = total.mixed + q * width;
        const float *from = chunk.mixed + q * width;
        if (total.sum[q] == 0.0f) {
            total.maximum[q] = chunk.maximum[q];
            total.sum[q] = chunk.sum[q];
            memcpy(to, from, width * sizeof(float));
            continue;
        }
        const float largest = total.maximum[q] > chunk.maximum[q] ? total.maximum[q] : chunk.maximum[q];
        float factors[W] = {total.maximum[q] - largest, chunk.maximum[q] - largest};
        store(factors, exp_bounded(load(factors)));
        total.maximum[q] = largest;
        total.sum[q] = total.sum[q] * factors[0] + chunk.sum[q] * factors[1];
        for (int d = 0; d < width; d += W)
            store(to + d, fma(load(from + d), splat(factors[1]), load(to + d) * factors[0]));
    }
}
