// A vector of W floats through the compiler's own vector types: 16 with AVX-512, 8 with AVX2, else 4 (SSE2, NEON).
#pragma once
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float Vec __attribute__((vector_size(W * 4)));
typedef int32_t VecInt __attribute__((vector_size(W * 4)));
typedef uint32_t VecBits __attribute__((vector_size(W * 4)));

static inline Vec load(const float *from) {
    Vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void store(float *to, Vec v) { memcpy(to, &v, sizeof v); }

static inline Vec splat(float x) { return x - Vec{}; } // x - 0 keeps the sign of a zero, 0 + x doesn't

// a * b + c, rounded once where the machine can. The build forbids the compiler to fuse on its own.
static inline Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

static inline Vec max(Vec a, Vec b) { return a > b ? a : b; }
static inline Vec min(Vec a, Vec b) { return a < b ? a : b; }

static inline VecInt lane_numbers() {
    VecInt v;
    for (int i = 0; i < W; ++i) v[i] = i;
    return v;
}

// Sum and maximum over lanes by halving: one order.
static inline float sum_lanes(Vec v) {
    float lanes[W];
    store(lanes, v);
    for (int half = W / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
}

static inline float max_lanes(Vec v) {
    float lanes[W];
    store(lanes, v);
    for (int half = W / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    return lanes[0];
}

// e^x with x cut to where the result is a normal number: 2^n * p(r), |r| <= ln 2 / 2, relative error below 2e-7.
static inline Vec exp_bounded(Vec x) {
    x = min(max(x, splat(-87.0f)), splat(88.0f));
    const Vec rounder = splat(12582912.0f); // 1.5 * 2^23: adding it rounds to a whole number
    const Vec n = fma(x, splat(1.44269504088896341f), rounder) - rounder;
    Vec r = fma(n, splat(-0.693145751953125f), x);
    r = fma(n, splat(-1.428606820309417e-6f), r);
    Vec p = splat(1.0f / 5040);
    p = fma(p, r, splat(1.0f / 720));
    p = fma(p, r, splat(1.0f / 120));
    p = fma(p, r, splat(1.0f / 24));
    p = fma(p, r, splat(1.0f / 6));
    p = fma(p, r, splat(0.5f));
    p = fma(p, r, splat(1.0f));
    p = fma(p, r, splat(1.0f));
    const VecInt exponent = __builtin_convertvector(n, VecInt) + 127;
    return p * (Vec)(exponent << 23);
}

static inline Vec tanh(Vec x) { return 1.0f - 2.0f / (exp_bounded(x + x) + 1.0f); }

// bf16 is the upper half of fp32; rounding is to nearest, ties to even.
static inline uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); // NaN stays NaN
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float from_bf16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

typedef uint16_t VecHalf __attribute__((vector_size(W * 2)));

static inline Vec load_bf16(const uint16_t *from) {
#if defined(__AVX512F__)
    return (Vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)), 16);
#endif
    VecHalf half;
    memcpy(&half, from, sizeof half);
    return (Vec)(__builtin_convertvector(half, VecBits) << 16);
}

static inline void store_bf16(uint16_t *to, Vec v) {
#if defined(__AVX512BF16__)
    const __m256bh half = _mm512_cvtneps_pbh((__m512)v);
    memcpy(to, &half, sizeof half);
#else
    const VecBits bits = (VecBits)v;
    const VecBits rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const VecBits is_nan = (VecBits)((bits & 0x7fffffff) > 0x7f800000);
    const VecHalf half = __builtin_convertvector((rounded & ~is_nan) | ((bits >> 16 | 0x40) & is_nan), VecHalf);
    memcpy(to, &half, sizeof half);
#endif
}

typedef int8_t VecByte __attribute__((vector_size(W)));

static inline Vec load_int8(const int8_t *from) {
    // GCC converts bytes one by one where it isn't told.
#if defined(__AVX512F__)
    return (Vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
#elif defined(__AVX2__)
    return (Vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
#endif
    VecByte bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(__builtin_convertvector(bytes, VecInt), Vec);
}

typedef int16_t VecShort __attribute__((vector_size(W * 2)));

static inline VecInt load_int16(const int16_t *from) {
    VecShort numbers;
    memcpy(&numbers, from, sizeof numbers);
    return __builtin_convertvector(numbers, VecInt);
}
