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

// fp32 [n] to the pool's number type in the same memory, int8 with amax / 127 as its scale. Zero up to a whole pair. A
// head of int8 with a number that isn't finite gets a scale of NaN, so that it reads back as one.
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
    float largest = 0, zero = 0;
    for (int i = 0; i < n; ++i) {
        largest = fabsf(head[i]) > largest ? fabsf(head[i]) : largest;
        zero += head[i] * 0.0f; // NaN where a number isn't finite, which the comparison above passes over
    }
    if (zero != 0.0f) {
        *scale = NAN;
        memset(head, 0, n + n % 2);
        return;
    }
    *scale = largest < 1e-30f ? 0.0f : largest / 127.0f; // so small a head is zero, and 1 / scale stays finite
    const float inverse = *scale > 0 ? 1.0f / *scale : 0.0f;
    int8_t *bytes = (int8_t *)head;
    for (int i = 0; i < n; ++i) {
        const float rounded = nearbyintf(head[i] * inverse);
        bytes[i] = (int8_t)(rounded > 127 ? 127 : rounded < -127 ? -127 : rounded);
    }
    if (n % 2) bytes[n] = 0;
}

template <class Unit> static inline void copy_as(const char *from, int from_step, char *to, int to_step, int n) {
    for (int i = 0; i < n; ++i)
        memcpy(to + (size_t)i * to_step * sizeof(Unit), from + (size_t)i * from_step * sizeof(Unit), sizeof(Unit));
}

// n units of 1, 2 or 4 bytes that lie some units apart.
static inline void copy_units(int bytes, const char *from, int from_step, char *to, int to_step, int n) {
    if (bytes == 4) return copy_as<uint32_t>(from, from_step, to, to_step, n);
    if (bytes == 2) return copy_as<uint16_t>(from, from_step, to, to_step, n);
    copy_as<uint8_t>(from, from_step, to, to_step, n);
}

// One slot's key in a tile: its cells (a number of fp32, else a pair) lie a row of slots apart.
struct KeyPlace {
    int cell_bytes, num_cells;
    explicit KeyPlace(const PoolLayer &layer) : cell_bytes(layer.pair() * layer.number_bytes()), num_cells(layer.num_cells()) {}
    static char *tile(const PoolLayer &layer, int kv_head, int64_t slot) { return layer.key_tile(kv_head, slot); }
    char *in(char *tile, int64_t slot) const { return tile + slot % SLOT_TILE * cell_bytes; }
    void put(const char *key, char *to) const { copy_units(cell_bytes, key, 1, to, SLOT_TILE, num_cells); }
    void move(const char *from, char *to) const { copy_units(cell_bytes, from, SLOT_TILE, to, SLOT_TILE, num_cells); }
};

// One slot's value in a tile: its numbers lie a pair apart.
struct ValuePlace {
    int number_bytes, pair, width, head_dim;
    explicit ValuePlace(const PoolLayer &layer)
        : number_bytes(layer.number_bytes()), pair(layer.pair()), width(layer.width()), head_dim(layer.head_dim) {}
    static char *tile(const PoolLayer &layer, int kv_head, int64_t slot) { return layer.value_tile(kv_head, slot); }
    char *in(char *tile, int64_t slot) const {
        const int lane = (int)(slot % SLOT_TILE);
        return tile + ((size_t)lane / pair * width * pair + lane % pair) * number_bytes;
    }
    void put(const char *value, char *to) const { copy_units(number_bytes, value, 1, to, pair, head_dim); }
    void move(const char *from, char *to) const { copy_units(number_bytes, from, pair, to, pair, head_dim); }
};

// Stores a row's key and value, fp32 [head_dim] each, which are overwritten.
static inline void store_heads(const PoolLayer &layer, int kv_head, int64_t slot, float *key, float *value) {
    const size_t scale = layer.scale_at(kv_head, slot);
    round_head(layer.kind, key, layer.head_dim, layer.kind == FR_INT8 ? layer.key_scales + scale : nullptr);
    round_head(layer.kind, value, layer.head_dim, layer.kind == FR_INT8 ? layer.value_scales + scale : nullptr);
    const KeyPlace keys(layer);
    const ValuePlace values(layer);
    keys.put((const char *)key, keys.in(layer.key_tile(kv_head, slot), slot));
    values.put((const char *)value, values.in(layer.value_tile(kv_head, slot), slot));
}

// Whether the slots of `count` positions are the first of a tile, in order.
static inline bool is_in_place(const int64_t *slots, int count) {
    int64_t differences = slots[0] % SLOT_TILE;
    for (int i = 0; i < count; ++i) differences |= slots[i] ^ (slots[0] + i);
    return differences == 0;
}

// Up to 16 keys (KeyPlace) or values (ValuePlace) as a tile: where they lie, or put together in `scratch`. What follows
// the last is undefined.
template <class Place>
static inline const char *find_tile(const PoolLayer &layer, int kv_head, const int64_t *slots, int count, char *scratch) {
    if (is_in_place(slots, count)) return Place::tile(layer, kv_head, slots[0]);
    const Place place(layer);
    for (int i = 0; i < count; ++i)
        place.move(place.in(Place::tile(layer, kv_head, slots[i]), slots[i]), place.in(scratch, i));
    return scratch;
}
