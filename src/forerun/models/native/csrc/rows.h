// What happens to one row between the linears: norms, rotation, activation, storing into the pool.
#pragma once
#include <math.h>

#include "forerun_kernels.h"
#include "vector.h"

// out = x / rms(x) * weight. n may end within a vector: the tail is read and summed lane by lane like the rest.
static inline void rms_norm(const float *x, const float *weight, float eps, int n, float *out) {
    Vec squares{};
    int i = 0;
    for (; i + W <= n; i += W) {
        const Vec v = load(x + i);
        squares = fma(v, v, squares);
    }
    float tail[W] = {};
    memcpy(tail, x + i, (n - i) * sizeof(float));
    squares = fma(load(tail), load(tail), squares);
    const float factor = 1.0f / sqrtf(sum_lanes(squares) / (float)n + eps);
    for (i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

// Element i turns with element i + half, as Hugging Face lays heads out.
static inline void rotate(float *head, const float *cosines, const float *sines, int half) {
    for (int i = 0; i < half; ++i) {
        const float left = head[i], right = head[i + half];
        head[i] = left * cosines[i] - right * sines[i];
        head[i + half] = right * cosines[i] + left * sines[i];
    }
}

// out[lane] = activation(gate[lane]) * up[lane]
static inline Vec gated(int activation, Vec gate, Vec up) {
    if (activation == FR_SILU) return gate / (exp_bounded(-gate) + 1.0f) * up;
    const Vec inner = (gate * gate * gate * 0.044715f + gate) * 0.7978845608028654f;
    return (tanh(inner) + 1.0f) * gate * 0.5f * up;
}

// One head of one row into the pool: [head_dim] in the pool's number type, int8 with amax / 127 as its scale.
static inline void store_head(int kind, const float *head, int n, void *to, float *scale) {
    if (kind == FR_FP32) {
        memcpy(to, head, n * sizeof(float));
    } else if (kind == FR_BF16) {
        int i = 0;
        for (; i + W <= n; i += W) store_bf16((uint16_t *)to + i, load(head + i));
        for (; i < n; ++i) ((uint16_t *)to)[i] = to_bf16(head[i]);
    } else {
        float largest = 0;
        for (int i = 0; i < n; ++i) largest = fabsf(head[i]) > largest ? fabsf(head[i]) : largest;
        *scale = largest < 1e-30f ? 0.0f : largest / 127.0f; // so small a head is zero, and 1 / scale stays finite
        const float inverse = *scale > 0 ? 1.0f / *scale : 0.0f;
        for (int i = 0; i < n; ++i) {
            const float rounded = nearbyintf(head[i] * inverse);
            ((int8_t *)to)[i] = (int8_t)(rounded > 127 ? 127 : rounded < -127 ? -127 : rounded);
        }
    }
}

// The way back, fp32 [n] out.
static inline void load_head(int kind, const void *from, float scale, int n, float *head) {
    int i = 0;
    if (kind == FR_FP32) {
        memcpy(head, from, n * sizeof(float));
    } else if (kind == FR_BF16) {
        const uint16_t *halves = (const uint16_t *)from;
        for (; i + W <= n; i += W) store(head + i, load_bf16(halves + i));
        for (; i < n; ++i) head[i] = from_bf16(halves[i]);
    } else {
        const int8_t *bytes = (const int8_t *)from;
        for (; i + W <= n; i += W) store(head + i, load_int8(bytes + i) * scale);
        for (; i < n; ++i) head[i] = (float)bytes[i] * scale;
    }
}
