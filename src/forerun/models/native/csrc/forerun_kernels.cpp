// The C interface over one instruction set. FR_PATH names it; the build sets both.
#include "forerun_kernels.h"

#include <array>

#include "decoder_pass.h"

// One linear over many rows, for tests, costs and drafters' own heads.
class LinearRun {
  public:
    LinearRun(Team &team, int num_threads, Arena &arena, const fr_linear &linear, const float *x, int num_rows, float *y)
        : team_(team), num_threads_(num_threads), linear_(linear), x_(x), num_rows_(num_rows), y_(y), rows_(num_threads),
          sums_(num_threads) {
        do {
            arena.begin();
            prepared_ = arena.take<char>(num_rows * prepared_stride(linear));
            for (int t = 0; t < num_threads; ++t) {
                rows_[t] = arena.take<float>(round_up(linear.num_inputs, K_MULTIPLE));
                sums_[t] = arena.take<float>((size_t)num_rows * PANEL);
            }
        } while (arena.grow());
    }

    void run() {
        team_.run(num_threads_, [](void *self, int thread) { ((LinearRun *)self)->work(thread); }, this);
    }

  private:
    void work(int thread) {
        [[maybe_unused]] const TilesOfTask tiles;
        const int padded = round_up(linear_.num_inputs, K_MULTIPLE);
        team_.share(thread, num_rows_, [&](int r) {
            memset(rows_[thread], 0, padded * sizeof(float));
            memcpy(rows_[thread], x_ + (size_t)r * linear_.num_inputs, linear_.num_inputs * sizeof(float));
            prepare_row(linear_, rows_[thread], prepared_ + r * prepared_stride(linear_));
        });
        team_.share(thread, num_panels(linear_.num_outputs), [&](int panel) {
            multiply(linear_, panel, prepared_, num_rows_, sums_[thread]);
            const int first = panel * PANEL;
            for (int r = 0; r < num_rows_; ++r)
                for (int i = 0; i < PANEL && first + i < linear_.num_outputs; ++i)
                    y_[(size_t)r * linear_.num_outputs + first + i] =
                        sums_[thread][r * PANEL + i] + (linear_.bias ? linear_.bias[first + i] : 0.0f);
        });
    }

    Team &team_;
    const int num_threads_;
    const fr_linear &linear_;
    const float *x_;
    const int num_rows_;
    float *y_;
    char *prepared_;
    std::vector<float *> rows_, sums_;
};

// Every linear of a decoder in the order of a pass, over rows of zeros and with nothing between: what the weights alone
// cost, which a pass is measured against.
class LinearsAlone {
  public:
    LinearsAlone(Team &team, int num_threads, Arena &arena, const fr_decoder &decoder, int num_rows)
        : team_(team), num_threads_(num_threads), decoder_(decoder), num_rows_(num_rows), sums_(num_threads) {
        size_t stride = prepared_stride(decoder.head);
        for (int l = 0; l < decoder.num_layers; ++l)
            for (const fr_linear *linear : linears_of(decoder.layers[l]))
                stride = stride < prepared_stride(*linear) ? prepared_stride(*linear) : stride;
        do {
            arena.begin();
            prepared_ = arena.take<char>(num_rows * stride);
            for (int t = 0; t < num_threads; ++t) sums_[t] = arena.take<float>((size_t)num_rows * PANEL);
        } while (arena.grow());
        memset(prepared_, 0, num_rows * stride);
    }

    void run() {
        team_.run(num_threads_, [](void *self, int thread) { ((LinearsAlone *)self)->work(thread); }, this);
    }

  private:
    static std::array<const fr_linear *, 4> linears_of(const fr_layer &layer) {
        return {&layer.qkv, &layer.output, &layer.gate_up, &layer.down};
    }

    void work(int thread) {
        [[maybe_unused]] const TilesOfTask tiles;
        for (int l = 0; l < decoder_.num_layers; ++l)
            for (const fr_linear *linear : linears_of(decoder_.layers[l])) pass_over(*linear, thread);
        pass_over(decoder_.head, thread);
    }

    void pass_over(const fr_linear &linear, int thread) {
        each_piece(team_, num_threads_, thread, num_panels(linear.num_outputs),
                   [&](int panel) { multiply(linear, panel, prepared_, num_rows_, sums_[thread]); });
    }

    Team &team_;
    const int num_threads_;
    const fr_decoder &decoder_;
    const int num_rows_;
    char *prepared_;
    std::vector<float *> sums_;
};

struct fr_team {
    Team team;
    std::mutex one_pass;
    Arena arena;
};

int64_t fr_sources(void) { return FR_SOURCES; }

const char *fr_path(void) { return FR_PATH; }

int fr_start(void) {
#if defined(FR_HAS_TILES)
    return may_use_tiles();
#else
    return 1;
#endif
}

fr_team *fr_new_team(void) { return new fr_team; }

void fr_free_team(fr_team *team) { delete team; }

int64_t fr_packed_bytes(int32_t kind, int32_t num_outputs, int32_t num_inputs) {
    const fr_linear shape{kind, num_outputs, num_inputs, nullptr, nullptr};
    return (int64_t)(num_panels(num_outputs) * panel_bytes_of(shape));
}

void fr_pack(int32_t kind, const void *weights, int32_t num_outputs, int32_t num_inputs, void *packed, int32_t first,
             int32_t stride) {
    pack(kind, weights, num_outputs, num_inputs, packed, first, stride);
}

int64_t fr_block_panel_bytes(int32_t format, int32_t num_inputs) {
    return with_format(format, [&]<class Format> { return (int64_t)(num_inputs / Format::UNIT_INPUTS) * Format::UNIT_BYTES; });
}

int fr_pack_blocks(int32_t format, const void *rows, int32_t num_outputs, int32_t num_inputs, const fr_block_panel *panels,
                   int32_t first, int32_t stride) {
    return pack_blocks(format, rows, num_outputs, num_inputs, panels, first, stride);
}

void fr_unpack_rows(const fr_linear *linear, const int64_t *ids, int32_t num_ids, float *rows) {
    for (int i = 0; i < num_ids; ++i) unpack_row(*linear, ids[i], rows + (size_t)i * linear->num_inputs);
}

void fr_run_linear(fr_team *team, int32_t num_threads, const fr_linear *linear, const float *x, int32_t num_rows, float *y) {
    const std::lock_guard<std::mutex> lock(team->one_pass);
    LinearRun(team->team, num_threads, team->arena, *linear, x, num_rows, y).run();
}

void fr_forward(fr_team *team, int32_t num_threads, const fr_decoder *decoder, const fr_pass *pass) {
    const std::lock_guard<std::mutex> lock(team->one_pass);
    DecoderPass(team->team, num_threads, team->arena, *decoder, *pass).run();
}

void fr_run_linears_alone(fr_team *team, int32_t num_threads, const fr_decoder *decoder, int32_t num_rows) {
    const std::lock_guard<std::mutex> lock(team->one_pass);
    LinearsAlone(team->team, num_threads, team->arena, *decoder, num_rows).run();
}
