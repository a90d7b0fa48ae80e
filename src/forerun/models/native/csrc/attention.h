// Attention over the pool. Keys are taken in position order through the group's slot table, so that it makes no
// difference where they lie, and in chunks counted from position 0.
//
// Within a chunk a row takes the maximum of its scores, the weights e^(score - maximum), their sum and the weighted sum
// of values, keys ascending; chunks are merged in order. Rows of a tile share only the loading of keys and values. What
// a row can't see adds an exact zero, or is skipped. Chunks may be worked on by different threads: they are merged in
// the same order either way.
#pragma once
#include <math.h>

#include <type_traits>

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
    float *rows;    // [KEY_BLOCK][width]: fp32 only, keys before they are turned
    float *block;   // a block of keys [head_dim][KEY_BLOCK] or of values [KEY_BLOCK][width]
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

static inline const char *pool_row(const PoolLayer &layer, const char *pool, int64_t slot, int kv_head) {
    return pool + ((size_t)slot * layer.num_kv_heads + kv_head) * pool_row_bytes(layer);
}

// Asks for what a block's loading will read next: keys lie scattered, and no prefetcher guesses a slot table. Inlined,
// because gcc takes a function that only prefetches for one that does nothing, and drops its calls.
__attribute__((always_inline)) static inline void ask_block(const PoolLayer &layer, const char *pool,
                                                            const int64_t *slots, int count, int kv_head) {
    const size_t bytes = pool_row_bytes(layer);
    for (int key = 0; key < count; ++key) {
        const char *row = pool_row(layer, pool, slots[key], kv_head);
        for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
    }
}

// The arithmetic of a block, in fp32: keys and values are widened, sums over d and over keys ascend one by one.
struct Fp32Attention {
    // One head of the keys or values at `count` positions into rows [KEY_BLOCK][width]; missing ones are zero.
    static void load_rows(const PoolLayer &layer, const char *pool, const float *scales, const int64_t *slots, int count,
                          int kv_head, int width, float *rows) {
        for (int key = 0; key < count; ++key) {
            const float scale = scales ? scales[(size_t)slots[key] * layer.num_kv_heads + kv_head] : 1.0f;
            load_head(layer.kind, pool_row(layer, pool, slots[key], kv_head), scale, layer.head_dim, rows + key * width);
        }
        memset(rows + count * width, 0, (size_t)(KEY_BLOCK - count) * width * sizeof(float));
    }

    // Keys as [width][KEY_BLOCK].
    static void load_keys(const PoolLayer &layer, const int64_t *slots, int count, int kv_head, int width,
                          const AttentionScratch &scratch) {
        load_rows(layer, layer.keys, layer.key_scales, slots, count, kv_head, width, scratch.rows);
        for (int key = 0; key < KEY_BLOCK; key += W)
            for (int d = 0; d < width; d += W) {
                Vec square[W];
                for (int i = 0; i < W; ++i) square[i] = load(scratch.rows + (key + i) * width + d);
                transpose(square);
                for (int i = 0; i < W; ++i) store(scratch.block + (d + i) * KEY_BLOCK + key, square[i]);
            }
    }

    static void load_values(const PoolLayer &layer, const int64_t *slots, int count, int kv_head, int width,
                            const AttentionScratch &scratch) {
        load_rows(layer, layer.values, layer.value_scales, slots, count, kv_head, width, scratch.block);
    }

    template <int Q> static void score(const float *queries, int width, int head_dim, const float *keys, float *scores) {
        constexpr int AT_ONCE = KEY_VECTORS < 4 ? KEY_VECTORS : 4;
        for (int part = 0; part < KEY_VECTORS; part += AT_ONCE) {
            Vec sum[Q][AT_ONCE] = {};
            for (int d = 0; d < head_dim; ++d)
#pragma GCC unroll 4
                for (int v = 0; v < AT_ONCE; ++v) {
                    const Vec key = load(keys + d * KEY_BLOCK + (part + v) * W);
#pragma GCC unroll 4
                    for (int q = 0; q < Q; ++q) sum[q][v] = fma(splat(queries[q * width + d]), key, sum[q][v]);
                }
            for (int q = 0; q < Q; ++q)
                for (int v = 0; v < AT_ONCE; ++v) store(scores + q * CHUNK + (part + v) * W, sum[q][v]);
        }
    }

    static void scale_scores(const PoolLayer &, const int64_t *, int, int, int, float *) {} // done while loading
    static void round_weights(const PoolLayer &, const int64_t *, int, int, int, float *) {}

    // Adds weight * value of `count` keys to the mixed values of Q queries, V vectors from column d on.
    template <int Q, int V>
    static void mix_columns(const float *weights, const float *values, int width, int count, int d, float *mixed) {
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

    template <int Q> static void mix(const float *weights, int block, const float *values, int width, int count, float *mixed) {
        int d = 0;
        for (; d + 4 * W <= width; d += 4 * W) mix_columns<Q, 4>(weights + block, values, width, count, d, mixed);
        for (; d < width; d += W) mix_columns<Q, 1>(weights + block, values, width, count, d, mixed);
    }
};

#if defined(__AVX512BF16__)
// The same for pools of bf16 and int8 (whose whole numbers are exact in bf16), with products of bf16 pairs summed in
// fp32 by one instruction: queries and weights are rounded to bf16. Pairs are neighbouring d, and neighbouring positions.
struct Bf16Attention {
    static inline __m512 dot(Vec sum, __m512i pairs, const void *pair) {
        int32_t both;
        memcpy(&both, pair, 4);
        return _mm512_dpbf16_ps((__m512)sum, (__m512bh)pairs, (__m512bh)_mm512_set1_epi32(both));
    }

    // 32 elements of a row from d on, as bf16; beyond the head they are zero.
    static inline __m512i row_part(const PoolLayer &layer, const char *row, int d) {
        const int left = layer.head_dim - d;
        const __mmask32 is_there = left >= 32 ? 0xffffffffu : (1u << left) - 1;
        if (layer.kind == FR_BF16) return _mm512_maskz_loadu_epi16(is_there, row + 2 * d);
        const __m256i bytes = _mm256_maskz_loadu_epi8(is_there, row + d);
        const __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes)));
        const __m512 high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(bytes, 1)));
        return (__m512i)_mm512_cvtne2ps_pbh(high, low);
    }

    // Keys as [width / 2][KEY_BLOCK] pairs; missing ones are zero.
    static void load_keys(const PoolLayer &layer, const int64_t *slots, int count, int kv_head, int,
                          const AttentionScratch &scratch) {
        for (int key = 0; key < KEY_BLOCK; key += W)
            for (int d = 0; d < layer.head_dim; d += 2 * W) {
                Vec square[W];
                for (int i = 0; i < W; ++i)
                    square[i] = key + i < count
                                    ? (Vec)row_part(layer, pool_row(layer, layer.keys, slots[key + i], kv_head), d)
                                    : Vec{};
                transpose(square);
                for (int i = 0; i < W; ++i) store(scratch.block + (d / 2 + i) * KEY_BLOCK + key, square[i]);
            }
    }

    // Values as [KEY_BLOCK / 2][width] pairs; a missing partner is zero.
    static void load_values(const PoolLayer &layer, const int64_t *slots, int count, int kv_head, int width,
                            const AttentionScratch &scratch) {
        const __m512i low = interleaving(0), high = interleaving(16);
        for (int key = 0; key < count; key += 2)
            for (int d = 0; d < layer.head_dim; d += 2 * W) {
                const __m512i even = row_part(layer, pool_row(layer, layer.values, slots[key], kv_head), d);
                const __m512i odd = key + 1 < count
                                        ? row_part(layer, pool_row(layer, layer.values, slots[key + 1], kv_head), d)
                                        : _mm512_setzero_si512();
                float *out = scratch.block + key / 2 * width + d;
                store(out, (Vec)_mm512_permutex2var_epi16(even, low, odd));
                if (d + W < width) store(out + W, (Vec)_mm512_permutex2var_epi16(even, high, odd));
            }
    }

    // Indices that take elements first .. first + 15 of two rows in turn.
    static inline __m512i interleaving(int first) {
        alignas(64) uint16_t index[32];
        for (int i = 0; i < 16; ++i) {
            index[2 * i] = (uint16_t)(first + i);
            index[2 * i + 1] = (uint16_t)(32 + first + i);
        }
        return _mm512_load_si512(index);
    }

    // fp32 [n] to bf16 in the same place's first half, zero up to the next pair.
    static void stage(const float *row, int n, float *out) {
        uint16_t *halves = (uint16_t *)out;
        int i = 0;
        for (; i + W <= n; i += W) store_bf16(halves + i, load(row + i));
        for (; i < n; ++i) halves[i] = to_bf16(row[i]);
        if (n % 2) halves[n] = 0;
    }

    template <int Q> static void score(const float *queries, int width, int head_dim, const float *keys, float *scores) {
        Vec sum[Q][KEY_VECTORS] = {};
        for (int pair = 0; pair < (head_dim + 1) / 2; ++pair)
#pragma GCC unroll 4
            for (int v = 0; v < KEY_VECTORS; ++v) {
                const __m512i key = (__m512i)load(keys + pair * KEY_BLOCK + v * W);
#pragma GCC unroll 4
                for (int q = 0; q < Q; ++q) sum[q][v] = (Vec)dot(sum[q][v], key, queries + q * width + pair);
            }
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < KEY_VECTORS; ++v) store(scores + q * CHUNK + v * W, sum[q][v]);
    }

    static void times_scales(const float *scales, const PoolLayer &layer, const int64_t *slots, int num_keys, int kv_head,
                             int num_queries, float *rows) {
        if (!scales) return;
        alignas(64) float by_key[CHUNK] = {};
        for (int key = 0; key < num_keys; ++key) by_key[key] = scales[(size_t)slots[key] * layer.num_kv_heads + kv_head];
        for (int q = 0; q < num_queries; ++q)
            for (int key = 0; key < num_keys; key += W)
                store(rows + q * CHUNK + key, load(rows + q * CHUNK + key) * load(by_key + key));
    }

    static void scale_scores(const PoolLayer &layer, const int64_t *slots, int num_keys, int kv_head, int num_queries,
                             float *scores) {
        times_scales(layer.key_scales, layer, slots, num_keys, kv_head, num_queries, scores);
    }

    // Weights times the values' scales, to bf16 in place: [CHUNK] halves at the front of each query's row.
    static void round_weights(const PoolLayer &layer, const int64_t *slots, int num_keys, int kv_head, int num_queries,
                              float *weights) {
        times_scales(layer.value_scales, layer, slots, num_keys, kv_head, num_queries, weights);
        for (int q = 0; q < num_queries; ++q)
            for (int key = 0; key < num_keys; key += W)
                store_bf16((uint16_t *)(weights + q * CHUNK) + key, load(weights + q * CHUNK + key));
    }

    template <int Q, int V>
    static void mix_columns(const float *weights, const float *values, int width, int count, int d, float *mixed) {
        Vec sum[Q][V];
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < V; ++v) sum[q][v] = load(mixed + q * width + d + v * W);
        for (int pair = 0; pair < (count + 1) / 2; ++pair)
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                const __m512i value = (__m512i)load(values + pair * width + d + v * W);
#pragma GCC unroll 4
                for (int q = 0; q < Q; ++q) sum[q][v] = (Vec)dot(sum[q][v], value, weights + q * CHUNK + pair);
            }
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < V; ++v) store(mixed + q * width + d + v * W, sum[q][v]);
    }

    template <int Q> static void mix(const float *weights, int block, const float *values, int width, int count, float *mixed) {
        const float *pairs = weights + block / 2;
        int d = 0;
        for (; d + 4 * W <= width; d += 4 * W) mix_columns<Q, 4>(pairs, values, width, count, d, mixed);
        for (; d < width; d += W) mix_columns<Q, 1>(pairs, values, width, count, d, mixed);
    }
};
#endif

// The vectors of a chunk that hold keys begin .. end - 1, and which of their lanes do.
struct Seen {
    int begin, end;
    bool is_whole(int v) const { return begin <= v * W && (v + 1) * W <= end; }
    Vec or_else(Vec x, int v, Vec other) const {
        const VecInt key = lane_numbers() + v * W;
        return (key >= begin) & (key < end) ? x : other;
    }
};

// Scores [CHUNK] of one query become weights in place; keys outside `seen` get none. Returns their sum.
static float to_weights(float *scores, Seen seen, int num_vectors, float softcap, float *maximum) {
    const Vec lowest = splat(-INFINITY);
    const int first = seen.begin / W, last = (seen.end + W - 1) / W; // beyond these nothing is seen
    Vec largest = lowest;
    for (int v = first; v < last; ++v) {
        Vec score = load(scores + v * W);
        if (softcap != 0.0f) store(scores + v * W, score = tanh(score / softcap) * softcap);
        largest = max(largest, seen.is_whole(v) ? score : seen.or_else(score, v, lowest));
    }
    *maximum = max_lanes(largest);
    for (int v = 0; v < first; ++v) store(scores + v * W, Vec{});
    Vec sum{};
    for (int v = first; v < last; ++v) {
        Vec weight = exp_bounded(load(scores + v * W) - *maximum);
        if (!seen.is_whole(v)) weight = seen.or_else(weight, v, Vec{});
        store(scores + v * W, weight);
        sum += weight;
    }
    for (int v = last; v < num_vectors; ++v) store(scores + v * W, Vec{});
    return sum_lanes(sum);
}

// f(first query, std::integral_constant of how many) over all queries, QUERIES at a time.
template <class F> static inline void each_queries(int num_queries, F f) {
    int q = 0;
    for (; q + QUERIES <= num_queries; q += QUERIES) f(q, std::integral_constant<int, QUERIES>{});
    static_assert(QUERIES == 4, "what is left is up to three");
    if (num_queries - q == 3) f(q, std::integral_constant<int, 3>{});
    if (num_queries - q == 2) f(q, std::integral_constant<int, 2>{});
    if (num_queries - q == 1) f(q, std::integral_constant<int, 1>{});
}

// One chunk of one kv head for all queries of a tile, into scratch.chunk.
template <class Math>
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
        const int next = block + KEY_BLOCK;
        if (next < num_keys)
            ask_block(layer, layer.keys, slots + next, count_at(next), kv_head);
        else
            ask_block(layer, layer.values, slots, count_at(0), kv_head);
        Math::load_keys(layer, slots + block, count_at(block), kv_head, width, scratch);
        each_queries(num_queries, [&](int q, auto how_many) {
            Math::template score<how_many>(scratch.queries + q * width, width, layer.head_dim, scratch.block,
                                           scratch.scores + q * CHUNK + block);
        });
    }

    const int num_vectors = (num_keys + W - 1) / W;
    Math::scale_scores(layer, slots, num_keys, kv_head, num_queries, scratch.scores);
    for (int q = 0; q < num_queries; ++q) {
        const int position = (int)positions[tile.rows[q / shared]];
        const int oldest = settings.window ? position - settings.window + 1 - first : 0;
        const int begin = oldest > 0 ? oldest : 0;
        const int end = position + 1 - first < num_keys ? position + 1 - first : num_keys;
        float *scores = scratch.scores + q * CHUNK;
        scratch.chunk.sum[q] = 0.0f;
        if (begin < end)
            scratch.chunk.sum[q] = to_weights(scores, {begin, end}, num_vectors, settings.softcap, scratch.chunk.maximum + q);
        else
            memset(scores, 0, num_vectors * W * sizeof(float));
    }
    Math::round_weights(layer, slots, num_keys, kv_head, num_queries, scratch.scores);

    memset(scratch.chunk.mixed, 0, (size_t)num_queries * width * sizeof(float));
    for (int block = 0; block < num_keys; block += KEY_BLOCK) {
        const int next = block + KEY_BLOCK;
        if (next < num_keys) ask_block(layer, layer.values, slots + next, count_at(next), kv_head);
        Math::load_values(layer, slots + block, count_at(block), kv_head, width, scratch);
        each_queries(num_queries, [&](int q, auto how_many) {
            Math::template mix<how_many>(scratch.scores + q * CHUNK, block, scratch.block, width, count_at(block),
                                         scratch.chunk.mixed + q * width);
        });
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
