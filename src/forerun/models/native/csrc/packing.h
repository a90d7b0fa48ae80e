// Weights from rows to panels and back.
#pragma once
#include "linear.h"

static void pack(int kind, const void *weights, int num_outputs, int num_inputs, void *packed, int first, int stride) {
    const fr_linear shape{kind, num_outputs, num_inputs, nullptr, nullptr};
    const size_t panel_bytes = panel_bytes_of(shape);
    const size_t width = kind == FR_BF16 ? 2 : 4, k_per_step = kind == FR_BF16 ? 2 : 1;
    const int num_panels = (num_outputs + PANEL - 1) / PANEL;
    for (int i = 0; i < num_panels; ++i) {
        char *panel = (char *)packed + (size_t)(first + i * stride) * panel_bytes;
        memset(panel, 0, panel_bytes);
        for (int lane = 0; lane < PANEL && i * PANEL + lane < num_outputs; ++lane) {
            const char *row = (const char *)weights + (size_t)(i * PANEL + lane) * num_inputs * width;
            for (size_t k = 0; k < (size_t)num_inputs; k += k_per_step) {
                const size_t here = (size_t)num_inputs - k < k_per_step ? width : width * k_per_step;
                memcpy(panel + k / k_per_step * STEP_BYTES + lane * width * k_per_step, row + k * width, here);
            }
        }
    }
}

static void unpack_row(const fr_linear &linear, int64_t id, float *row) {
    const char *panel = (const char *)linear.weights + (size_t)(id / PANEL) * panel_bytes_of(linear);
    const int lane = (int)(id % PANEL);
    for (int k = 0; k < linear.num_inputs; ++k) {
        if (linear.kind == FR_BF16) {
            uint16_t half;
            memcpy(&half, panel + (size_t)(k / 2) * STEP_BYTES + lane * 4 + k % 2 * 2, 2);
            row[k] = from_bf16(half);
        } else {
            memcpy(row + k, panel + (size_t)k * STEP_BYTES + lane * 4, 4);
        }
    }
}
