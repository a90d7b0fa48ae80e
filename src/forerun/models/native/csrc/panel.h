// How packed weights lie, and how a panel's weights are asked for ahead. A panel is 32 outputs: a run of steps of 128 bytes,
// for bf16 two k each (32 pairs), for fp32 one.
#pragma once

constexpr int PANEL = 32;          // outputs of a panel
constexpr int HALF = 16;           // gate and up share a panel, half each
constexpr int STEP_BYTES = 128;    // weights of a step
constexpr int K_MULTIPLE = 32;     // inputs are padded with zeros to whole AMX tiles

static inline int round_up(int n, int to) { return (n + to - 1) / to * to; }
static inline int num_panels(int num_outputs) { return round_up(num_outputs, PANEL) / PANEL; }

// Weights are asked for before they are needed. A single tile passes them at the speed of memory and looks AHEAD bytes
// ahead. Several tiles pass over the same block, which lies in the cache by then, and share the asking for the block
// behind it: tile t of T asks for that block's t-th part, 1/T of a step at every step.
constexpr int AHEAD = 8192;

struct Asking {
    const char *next; // address to ask for at the first step
    int stride;       // bytes that it moves on by at every step
};
