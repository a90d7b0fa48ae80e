// Attention over the pool. Keys are taken in position order through the group's slot table, so that it makes no
// difference where they lie, and in chunks counted from position 0. 16 positions whose slots are a tile of the pool are
// read where they are, others are gathered first.
//
// Within a chunk a row takes the maximum of its scores, the weights e^(score - maximum), their sum and the weighted sum
// of values, keys ascending; chunks are merged in order. Rows of a tile share only the loading of keys and values. What
// a row can't see adds an exact zero, or is skipped. Chunks may be worked on by different threads: they are merged in
// the same order either way.
#pragma once
#include <math.h>

#include <type_traits>

#include "forerun_kernels.h"
#include "pool.h"
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

// Running result of `num_queries` queries: the maximum, the sum of weights, the weighted sum of values [padded width].
// sum == 0: nothing seen yet.
struct Partial {
    float *maximum, *sum, *mixed;
};

struct AttentionScratch {
    float *gathered; // [KEY_BLOCK][width]: tiles that don't lie in the pool as they are read
    float *block;    // [KEY_BLOCK][width]: tiles in the number type of the arithmetic
    float *scores;  // [queries][CHUNK]
    float *queries; // [queries][width], scaled
    Partial chunk, total;
};

struct AttentionSettings {
    float softcap;
    int window;
};

// Up to KEY_BLOCK keys or values as arithmetic reads them, a pointer for each 16 positions.
struct SlotTiles {
    const float *at[KEY_BLOCK / SLOT_TILE];
};

// The arithmetic of a block, in fp32: keys and values of other types are widened first. Sums over d and over keys ascend
// one by one.
struct Fp32Attention {
    // A tile of keys as [width][16].
    static const float *keys(const PoolLayer &layer, const char *tile, float *out) {
        if (layer.kind == FR_FP32) return (const float *)tile;
        for (int cell = 0; cell < layer.num_cells(); ++cell)
            for (int lane = 0; lane < SLOT_TILE; lane += W)
                widen_pairs(layer.kind, tile, cell * SLOT_TILE + lane, out + 2 * cell * SLOT_TILE + lane, SLOT_TILE);
        return out;
    }

    // A tile of values as [16][width].
    static const float *values(const PoolLayer &layer, const char *tile, float *out) {
        if (layer.kind == FR_FP32) return (const float *)tile;
        const int width = layer.width();
        for (int pair = 0; pair < SLOT_TILE / 2; ++pair)
            for (int d = 0; d < width; d += W)
                widen_pairs(layer.kind, tile, pair * width + d, out + 2 * pair * width + d, width);
        return out;
    }

    // W pairs of `tile` from pair `at` on: their first numbers to `out`, their second ones `step` floats behind.
    static void widen_pairs(int kind, const char *tile, int at, float *out, int step) {
        if (kind == FR_BF16) {
            const VecBits pairs = (VecBits)load((const float *)tile + at);
            store(out, (Vec)(pairs << 16));
            store(out + step, (Vec)(pairs & 0xffff0000u));
            return;
        }
        const VecInt pairs = load_int16((const int16_t *)tile + at);
        store(out, __builtin_convertvector(pairs << 24 >> 24, Vec));
        store(out + step, __builtin_convertvector(pairs >> 8, Vec));
    }

    static void stage(const float *, int, float *) {}

    template <int Q> static void score(const float *queries, int width, int head_dim, const SlotTiles &keys, float *scores) {
        constexpr int AT_ONCE = KEY_VECTORS < 4 ? KEY_VECTORS : 4;
        for (int part = 0; part < KEY_VECTORS; part += AT_ONCE) {
            Vec sum[Q][AT_ONCE] = {};
            for (int d = 0; d < head_dim; ++d)
#pragma GCC unroll 4
                for (int v = 0; v < AT_ONCE; ++v) {
                    const int lane = (part + v) * W;
                    const Vec key = load(keys.at[lane / SLOT_TILE] + d * SLOT_TILE + lane % SLOT_TILE);
#pragma GCC unroll 4
                    for (int q = 0; q < Q; ++q) sum[q][v] = fma(splat(queries[q * width + d]), key, sum[q][v]);
                }
            for (int q = 0; q < Q; ++q)
                for (int v = 0; v < AT_ONCE; ++v) store(scores + q * CHUNK + (part + v) * W, sum[q][v]);
        }
    }

    static void round_weights(int, int, float *) {}

    // Adds weight * value of `count` keys to the mixed values of Q queries, V vectors from column d on.
    template <int Q, int V>
    static void mix_columns(const float *weights, const SlotTiles &values, int width, int count, int d, float *mixed) {
        Vec sum[Q][V];
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < V; ++v) sum[q][v] = load(mixed + q * width + d + v * W);
        for (int key = 0; key < count; ++key) {
            const float *row = values.at[key / SLOT_TILE] + key % SLOT_TILE * width + d;
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                const Vec value = load(row + v * W);
#pragma GCC unroll 4
                for (int q = 0; q < Q; ++q) sum[q][v] = fma(splat(weights[q * CHUNK + key]), value, sum[q][v]);
            }
        }
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < V; ++v) store(mixed + q * width + d + v * W, sum[q][v]);
    }

    template <int Q>
    static void mix(const float *weights, int block, const SlotTiles &values, int width, int count, float *mixed) {
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

    // A tile of keys as [cells][16] pairs.
    static const float *keys(const PoolLayer &layer, const char *tile, float *out) {
        if (layer.kind == FR_BF16) return (const float *)tile;
        widen(tile, layer.num_cells() * SLOT_TILE, out);
        return out;
    }

    // A tile of values as [8][width] pairs.
    static const float *values(const PoolLayer &layer, const char *tile, float *out) {
        if (layer.kind == FR_BF16) return (const float *)tile;
        widen(tile, SLOT_TILE / 2 * layer.width(), out);
        return out;
    }

    // Pairs of int8 to pairs of bf16, whole vectors.
    static void widen(const char *tile, int num_pairs, float *out) {
        for (int pair = 0; pair < num_pairs; pair += W) {
            const Vec low = load_int8((const int8_t *)tile + 2 * pair), high = load_int8((const int8_t *)tile + 2 * pair + W);
            store(out + pair, (Vec)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
        }
    }

    // fp32 [n] to bf16 in the same place's first half, zero up to the next pair.
    static void stage(const float *row, int n, float *out) {
        uint16_t *halves = (uint16_t *)out;
        int i = 0;
        for (; i + W <= n; i += W) store_bf16(halves + i, load(row + i));
        for (; i < n; ++i) halves[i] = to_bf16(row[i]);
        if (n % 2) halves[n] = 0;
    }

    template <int Q> static void score(const float *queries, int width, int head_dim, const SlotTiles &keys, float *scores) {
        static_assert(SLOT_TILE == W, "a vector of keys is a tile");
        Vec sum[Q][KEY_VECTORS] = {};
        for (int cell = 0; cell < (head_dim + 1) / 2; ++cell)
#pragma GCC unroll 4
            for (int v = 0; v < KEY_VECTORS; ++v) {
                const __m512i key = (__m512i)load(keys.at[v] + cell * SLOT_TILE);
#pragma GCC unroll 4
                for (int q = 0; q < Q; ++q) sum[q][v] = (Vec)dot(sum[q][v], key, queries + q * width + cell);
            }
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < KEY_VECTORS; ++v) store(scores + q * CHUNK + v * W, sum[q][v]);
    }

    // To bf16 in place: [CHUNK] halves at the front of each query's row.
    static void round_weights(int num_keys, int num_queries, float *weights) {
        for (int q = 0; q < num_queries; ++q)
            for (int key = 0; key < num_keys; key += W)
                store_bf16((uint16_t *)(weights + q * CHUNK) + key, load(weights + q * CHUNK + key));
    }

    template <int Q, int V>
    static void mix_columns(const float *weights, const SlotTiles &values, int width, int count, int d, float *mixed) {
        Vec sum[Q][V];
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < V; ++v) sum[q][v] = load(mixed + q * width + d + v * W);
        const auto add_pair = [&](int pair, uint32_t mask) {
            const float *row = values.at[2 * pair / SLOT_TILE] + pair % (SLOT_TILE / 2) * width + d;
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                const __m512i value = (__m512i)((VecBits)load(row + v * W) & mask);
#pragma GCC unroll 4
                for (int q = 0; q < Q; ++q) sum[q][v] = (Vec)dot(sum[q][v], value, weights + q * CHUNK + pair);
            }
        };
        for (int pair = 0; pair < count / 2; ++pair) add_pair(pair, 0xffffffffu);
        if (count % 2) add_pair(count / 2, 0xffffu); // its partner isn't there
        for (int q = 0; q < Q; ++q)
            for (int v = 0; v < V; ++v) store(mixed + q * width + d + v * W, sum[q][v]);
    }

    template <int Q>
    static void mix(const float *weights, int block, const SlotTiles &values, int width, int count, float *mixed) {
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

// Asks for the tile that holds the slot of position `key`, if there is such a position. Inlined, because gcc takes a
// function that only prefetches for one that does nothing, and drops its calls.
__attribute__((always_inline)) static inline void ask_tile(const char *first_tile, size_t bytes, const int64_t *slots,
                                                           int key, int num_keys) {
    if (key >= num_keys) return;
    const char *tile = first_tile + slots[key] / SLOT_TILE * bytes;
    for (size_t line = 0; line < bytes; line += 64) __builtin_prefetch(tile + line);
}

// Scores or weights [queries][CHUNK] times the scales of their keys or values. Other pools than int8 have none.
static void times_scales(const float *scales, const int64_t *slots, int num_keys, int num_queries, float *rows) {
    alignas(64) float by_key[CHUNK] = {};
    for (int tile = 0; tile < num_keys; tile += SLOT_TILE) {
        const int count = num_keys - tile < SLOT_TILE ? num_keys - tile : SLOT_TILE;
        if (is_in_place(slots + tile, count))
            memcpy(by_key + tile, scales + slots[tile], SLOT_TILE * sizeof(float));
        else
            for (int key = tile; key < tile + count; ++key) by_key[key] = scales[slots[key]];
    }
    for (int q = 0; q < num_queries; ++q)
        for (int key = 0; key < num_keys; key += W)
            store(rows + q * CHUNK + key, load(rows + q * CHUNK + key) * load(by_key + key));
}

// Scores of a chunk become weights in place; maxima and sums go to scratch.chunk.
template <class Math>
static void weigh_chunk(const AttentionTile &tile, const int64_t *positions, const PoolLayer &layer, int kv_head,
                        int shared, int first, int num_keys, const AttentionSettings &settings,
                        const AttentionScratch &scratch) {
    const int num_queries = tile.num_rows * shared;
    const int64_t *slots = tile.slots + first;
    const int num_vectors = (num_keys + W - 1) / W;
    if (layer.kind == FR_INT8)
        times_scales(layer.key_scales + layer.scale_at(kv_head, 0), slots, num_keys, num_queries, scratch.scores);
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
    if (layer.kind == FR_INT8)
        times_scales(layer.value_scales + layer.scale_at(kv_head, 0), slots, num_keys, num_queries, scratch.scores);
    Math::round_weights(num_keys, num_queries, scratch.scores);
}

// One chunk of one kv head for all queries of a tile, into scratch.chunk.
template <class Math>
static void attend_chunk(const AttentionTile &tile, const int64_t *positions, const PoolLayer &layer, int kv_head,
                         int shared, int chunk, const AttentionSettings &settings, const AttentionScratch &scratch) {
    const int num_queries = tile.num_rows * shared, width = layer.width();
    const int first = chunk * CHUNK;
    const int num_keys = tile.num_keys - first < CHUNK ? tile.num_keys - first : CHUNK;
    const int64_t *slots = tile.slots + first;
    const auto count_at = [&](int block) { return num_keys - block < KEY_BLOCK ? num_keys - block : KEY_BLOCK; };
    const char *first_keys = layer.key_tile(kv_head, 0), *first_values = layer.value_tile(kv_head, 0);
    const size_t key_bytes = layer.key_tile_bytes(), value_bytes = layer.value_tile_bytes();
    // f(first position of a tile, how many it has, memory to gather it in, memory to widen it in)
    const auto each_tile = [&](int block, auto f) {
        for (int at = 0; at < count_at(block); at += SLOT_TILE) {
            const int left = count_at(block) - at;
            f(block + at, left < SLOT_TILE ? left : SLOT_TILE, (char *)(scratch.gathered + at * width), scratch.block + at * width);
        }
    };

    // While a block is worked on, memory brings the next one: a tile is asked for when its predecessor is loaded.
    for (int key = 0; key < KEY_BLOCK; key += SLOT_TILE) ask_tile(first_keys, key_bytes, slots, key, num_keys);
    for (int block = 0; block < num_keys; block += KEY_BLOCK) {
        SlotTiles keys;
        for (const float *&at : keys.at) at = scratch.block; // what comes of tiles that aren't there is never looked at
        each_tile(block, [&](int key, int count, char *gathered, float *wide) {
            ask_tile(first_keys, key_bytes, slots, key + KEY_BLOCK, num_keys);
            if (block + KEY_BLOCK >= num_keys) ask_tile(first_values, value_bytes, slots, key - block, num_keys);
            const char *found = find_tile<KeyPlace>(layer, kv_head, slots + key, count, gathered);
            keys.at[(key - block) / SLOT_TILE] = Math::keys(layer, found, wide);
        });
        each_queries(num_queries, [&](int q, auto how_many) {
            Math::template score<how_many>(scratch.queries + q * width, width, layer.head_dim, keys,
                                           scratch.scores + q * CHUNK + block);
        });
    }

    weigh_chunk<Math>(tile, positions, layer, kv_head, shared, first, num_keys, settings, scratch);

    memset(scratch.chunk.mixed, 0, (size_t)num_queries * width * sizeof(float));
    for (int block = 0; block < num_keys; block += KEY_BLOCK) {
        SlotTiles values;
        each_tile(block, [&](int key, int count, char *gathered, float *wide) {
            ask_tile(first_values, value_bytes, slots, key + KEY_BLOCK, num_keys);
            const char *found = find_tile<ValuePlace>(layer, kv_head, slots + key, count, gathered);
            values.at[(key - block) / SLOT_TILE] = Math::values(layer, found, wide);
        });
        each_queries(num_queries, [&](int q, auto how_many) {
            Math::template mix<how_many>(scratch.scores + q * CHUNK, block, values, width, count_at(block),
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
