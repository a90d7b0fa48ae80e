// Weights from rows to panels (all zero before) and back.
#pragma once
#include "block_packing.h"
#include "linear.h"

static void pack(int kind, const void *weights, int num_outputs, int num_inputs, void *packed, int first, int stride) {
    const fr_linear shape{kind, num_outputs, num_inputs, nullptr, nullptr};
    const size_t panel_bytes = panel_bytes_of(shape);
    const size_t width = kind == FR_BF16 ? 2 : 4, k_per_step = kind == FR_BF16 ? 2 : 1;
    for (int i = 0; i < (num_outputs + HALF - 1) / HALF; ++i) {
        const int half = first + i * stride;
        char *panel = (char *)packed + (size_t)(half / 2) * panel_bytes + half % 2 * (STEP_BYTES / 2);
        for (int lane = 0; lane < HALF && i * HALF + lane < num_outputs; ++lane) {
            const char *row = (const char *)weights + (size_t)(i * HALF + lane) * num_inputs * width;
            for (size_t k = 0; k < (size_t)num_inputs; k += k_per_step) {
                const size_t here = (size_t)num_inputs - k < k_per_step ? width : width * k_per_step;
                memcpy(panel + k / k_per_step * STEP_BYTES + lane * width * k_per_step, row + k * width, here);
            }
        }
    }
}

static void unpack_row(const fr_linear &linear, int64_t id, float *row) {
    if (linear.kind == FR_BLOCKS)
        return unpack_block_row(((const fr_block_panel *)linear.weights)[id / PANEL], id % PANEL, linear.num_inputs, row);
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
