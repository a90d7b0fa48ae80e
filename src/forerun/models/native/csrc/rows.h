// What happens to one row between the linears: norms, rotation, activation.
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
