// How keys and values lie in the pool: the way attention multiplies them, so that a pass turns nothing.
//
// A tile is 16 neighbouring slots of one kv head, tiles of a head lie one after the other. Numbers of bf16 and int8 come
// in pairs, which one instruction multiplies and adds: neighbours d of a key, neighbouring slots of a value.
//
//     keys    [kv heads][tiles][head_dim / pair][16 slots][pair]
//     values  [kv heads][tiles][16 slots / pair][width][pair]       width: head_dim in whole 16s
//     scales  [kv heads][slots]                                     int8 only
#pragma once
#include <math.h>
#include <string.h>

#include "forerun_kernels.h"
#include "vector.h"

constexpr int SLOT_TILE = 16;

struct PoolLayer {
    int kind, num_kv_heads, head_dim;
    int64_t num_slots; // whole tiles
    char *keys, *values;
    float *key_scales, *value_scales;

    int pair() const { return kind == FR_FP32 ? 1 : 2; }
    int number_bytes() const { return kind == FR_FP32 ? 4 : kind == FR_BF16 ? 2 : 1; }
    int num_cells() const { return (head_dim + pair() - 1) / pair(); } // of a key
    int width() const { return (head_dim + 15) / 16 * 16; }

    size_t key_tile_bytes() const { return (size_t)num_cells() * SLOT_TILE * pair() * number_bytes(); }
    size_t value_tile_bytes() const { return (size_t)SLOT_TILE * width() * number_bytes(); }
    char *key_tile(int kv_head, int64_t slot) const { return keys + tile(kv_head, slot) * key_tile_bytes(); }
    char *value_tile(int kv_head, int64_t slot) const { return values + tile(kv_head, slot) * value_tile_bytes(); }
    size_t scale_at(int kv_head, int64_t slot) const { return (size_t)kv_head * num_slots + slot; }

  private:
    size_t tile(int kv_head, int64_t slot) const { return (size_t)kv_head * (num_slots / SLOT_TILE) + slot / SLOT_TILE; }
};

// fp32 [n] to the pool's number type in the same memory, int8 with amax / 127 as its scale. Zero up to a whole pair.
static inline void round_head(int kind, float *head, int n, float *scale) {
    if (kind == FR_FP32) return;
    if (kind == FR_BF16) {
        uint16_t half[W];
        for (int i = 0; i < n; i += W) {
            float part[W] = {};
            memcpy(part, head + i, (n - i < W ? n - i : W) * sizeof(float));
            store_bf16(half, load(part));
            memcpy((char *)head + 2 * i, half, (n - i < W ? (n - i + 1) / 2 * 2 : W) * sizeof(uint16_t));
        }
        return;
    }
    float largest = 0;
    for (int i = 0; i < n; ++i) largest = fabsf(head[i]) > largest ? fabsf(head[i]) : largest;
    *scale = largest < 1e-30f ? 0.0f : largest / 127.0f; // so small a head is zero, and 1 / scale stays finite
    const float inverse = *scale > 0 ? 1.0f / *scale : 0.0f;
    int8_t *bytes = (int8_t *)head;
    for (int i = 0; i < n; ++i) {
        const float rounded = nearbyintf(head[i] * inverse);
        bytes[i] = (int8_t)(rounded > 127 ? 127 : rounded < -127 ? -127 : rounded);
    }
    if (n % 2) bytes[n] = 0;
}

// A cell is what one slot has in a row of a tile of keys: a number of fp32, else a pair.
template <class Cell> static inline void copy_key(const char *from, int from_step, char *to, int to_step, int num_cells) {
    for (int i = 0; i < num_cells; ++i)
        memcpy(to + (size_t)i * to_step * sizeof(Cell), from + (size_t)i * from_step * sizeof(Cell), sizeof(Cell));
}

static inline void copy_key(const PoolLayer &layer, const char *from, int from_step, char *to, int to_step) {
    if (layer.kind == FR_INT8)
        copy_key<uint16_t>(from, from_step, to, to_step, layer.num_cells());
    else
        copy_key<uint32_t>(from, from_step, to, to_step, layer.num_cells());
}

static inline char *key_in_tile(const PoolLayer &layer, char *tile, int lane) {
    return tile + (size_t)lane * layer.pair() * layer.number_bytes();
}

// The first number of a slot's value in its tile; the next ones follow `pair` numbers apart.
static inline char *value_in_tile(const PoolLayer &layer, char *tile, int lane) {
    const int pair = layer.pair();
    return tile + ((size_t)lane / pair * layer.width() * pair + lane % pair) * layer.number_bytes();
}

template <class Number> static inline void copy_value(const char *from, int from_step, char *to, int to_step, int n) {
    for (int i = 0; i < n; ++i)
        memcpy(to + (size_t)i * to_step * sizeof(Number), from + (size_t)i * from_step * sizeof(Number), sizeof(Number));
}

static inline void copy_value(const PoolLayer &layer, const char *from, int from_step, char *to, int to_step) {
    if (layer.kind == FR_FP32) return (void)memcpy(to, from, layer.head_dim * sizeof(float));
    if (layer.kind == FR_BF16) return copy_value<uint16_t>(from, from_step, to, to_step, layer.head_dim);
    copy_value<uint8_t>(from, from_step, to, to_step, layer.head_dim);
}

// Stores a row's key and value, fp32 [head_dim] each, which are overwritten.
static inline void store_heads(const PoolLayer &layer, int kv_head, int64_t slot, float *key, float *value) {
    const size_t scale = layer.scale_at(kv_head, slot);
    round_head(layer.kind, key, layer.head_dim, layer.kind == FR_INT8 ? layer.key_scales + scale : nullptr);
    round_head(layer.kind, value, layer.head_dim, layer.kind == FR_INT8 ? layer.value_scales + scale : nullptr);
    const int lane = (int)(slot % SLOT_TILE);
    copy_key(layer, (const char *)key, 1, key_in_tile(layer, layer.key_tile(kv_head, slot), lane), SLOT_TILE);
    copy_value(layer, (const char *)value, 1, value_in_tile(layer, layer.value_tile(kv_head, slot), lane), layer.pair());
}

// Whether the slots of `count` positions from a tile's first on are that tile's first, in order.
static inline bool is_in_place(const int64_t *slots, int count) {
    int64_t differences = slots[0] % SLOT_TILE;
    for (int i = 0; i < count; ++i) differences |= slots[i] ^ (slots[0] + i);
    return differences == 0;
}

// A tile of keys of up to 16 positions: where it lies, or put together in `scratch`. What follows the last is undefined.
static inline const char *find_keys(const PoolLayer &layer, int kv_head, const int64_t *slots, int count, char *scratch) {
    if (is_in_place(slots, count)) return layer.key_tile(kv_head, slots[0]);
    for (int i = 0; i < count; ++i) {
        char *tile = layer.key_tile(kv_head, slots[i]);
        copy_key(layer, key_in_tile(layer, tile, (int)(slots[i] % SLOT_TILE)), SLOT_TILE, key_in_tile(layer, scratch, i), SLOT_TILE);
    }
    return scratch;
}

// The same of values.
static inline const char *find_values(const PoolLayer &layer, int kv_head, const int64_t *slots, int count, char *scratch) {
    if (is_in_place(slots, count)) return layer.value_tile(kv_head, slots[0]);
    for (int i = 0; i < count; ++i) {
        char *tile = layer.value_tile(kv_head, slots[i]);
        copy_value(layer, value_in_tile(layer, tile, (int)(slots[i] % SLOT_TILE)), layer.pair(), value_in_tile(layer, scratch, i), layer.pair());
    }
    return scratch;
}
