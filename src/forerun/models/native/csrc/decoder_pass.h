// How a row travels through the model. All threads walk through `travel` together; every `share` hands out pieces of
// one phase and waits until the last of them is done, so a phase may read whatever the phase before it wrote.
#pragma once
#include <stdlib.h>

#include <vector>

#include "arena.h"
#include "attention.h"
#include "linear.h"
#include "packing.h"
#include "rows.h"
#include "thread_team.h"

// A piece of attention: chunks begin .. end - 1 of one tile and kv head. `partial` >= 0: only chunk `begin`, whose
// result goes there and is merged in a phase of its own.
struct AttentionItem {
    int tile, kv_head, begin, end, partial;
};

// The pieces of all layers that have the same window.
struct AttentionPlan {
    int window;
    std::vector<AttentionTile> tiles;
    std::vector<AttentionItem> items;
    bool is_split; // by chunks: there would be too few pieces otherwise
    int num_partials;
};

// f(panel) for all panels, in pieces of neighbours: enough pieces that a slow thread can be helped, few enough that
// taking one costs nothing, and what a thread asks memory for ahead is mostly its own.
template <class F> static void each_piece(Team &team, int num_threads, int thread, int num_panels, F f) {
    constexpr int PIECES = 12;
    const int size = num_panels / (PIECES * num_threads) + 1;
    team.share(thread, (num_panels + size - 1) / size, [&](int piece) {
        for (int panel = piece * size; panel < (piece + 1) * size && panel < num_panels; ++panel) f(panel);
    });
}

class DecoderPass {
  public:
    DecoderPass(Team &team, int num_threads, Arena &arena, const fr_decoder &decoder, const fr_pass &pass)
        : team_(team), num_threads_(num_threads), decoder_(decoder), pass_(pass),
          shared_(decoder.num_heads / decoder.num_kv_heads), width_(round_up(decoder.head_dim, SLOT_TILE)) {
        plan_attention();
        do {
            arena.begin();
            lay_out(arena);
        } while (arena.grow());
        for (size_t r = 0; r < (size_t)pass.num_rows; ++r) {
            zero_tail(mixed_ + r * mixed_stride_, decoder.num_heads * decoder.head_dim);
            zero_tail(gated_ + r * gated_stride_, decoder.intermediate);
        }
    }

    void run() {
        team_.run(num_threads_, [](void *self, int thread) { ((DecoderPass *)self)->travel(thread); }, this);
    }

  private:
    static constexpr int FEW_ROWS = 4;

    void travel(int thread) {
        [[maybe_unused]] const TilesOfTask tiles;
        const int hidden = decoder_.hidden, num_rows = pass_.num_rows;
        for (int l = 0; l < decoder_.num_layers; ++l) {
            const fr_layer &layer = decoder_.layers[l];
            prepare_rows(thread, [&](int r) { prepare_normed(layer.qkv, layer.attention_norm, pass_.x + r * hidden, r, thread); });
            multiply_into(layer.qkv, qkv_, num_rows, thread);
            place_heads(l, thread);
            attend(l, thread);
            prepare_rows(thread, [&](int r) { prepare_row(layer.output, mixed_ + r * mixed_stride_, prepared(layer.output, r, thread)); });
            add_to_stream(layer.output, layer.attention_output_norm, thread);
            prepare_rows(thread, [&](int r) { prepare_normed(layer.gate_up, layer.mlp_norm, pass_.x + r * hidden, r, thread); });
            multiply_gated(layer.gate_up, thread);
            prepare_rows(thread, [&](int r) { prepare_row(layer.down, gated_ + r * gated_stride_, prepared(layer.down, r, thread)); });
            add_to_stream(layer.down, layer.mlp_output_norm, thread);
            if (float *tap = pass_.taps[l])
                each_row(thread, [&](int r) { memcpy(tap + r * hidden, pass_.x + r * hidden, hidden * sizeof(float)); });
        }
        if (pass_.normed)
            each_row(thread, [&](int r) {
                rms_norm(pass_.x + r * hidden, decoder_.final_norm, decoder_.norm_eps, hidden, pass_.normed + r * hidden);
            });
        head(thread);
    }

    template <class F> void each_row(int thread, F f) {
        // A few rows are not worth a thread of their own.
        const int at_once = pass_.num_rows < 4 ? pass_.num_rows : 2;
        team_.share(thread, (pass_.num_rows + at_once - 1) / at_once, [&](int i) {
            for (int r = i * at_once; r < (i + 1) * at_once && r < pass_.num_rows; ++r) f(r);
        });
    }

    // Rows for the linear that comes next. Of a few rows every thread prepares its own copy, which is sooner done than
    // waiting for another thread's.
    template <class F> void prepare_rows(int thread, F f) {
        if (!has_few_rows_) return each_row(thread, f);
        for (int r = 0; r < pass_.num_rows; ++r) f(r);
    }

    char *prepared_rows(int thread) { return prepared_ + (has_few_rows_ ? thread * prepared_bytes_ : 0); }

    char *prepared(const fr_linear &linear, int row, int thread) {
        return prepared_rows(thread) + row * prepared_stride(linear);
    }

    void prepare_normed(const fr_linear &linear, const float *norm, const float *x, int row, int thread) {
        float *out = row_scratch_[thread];
        rms_norm(x, norm, decoder_.norm_eps, linear.num_inputs, out);
        zero_tail(out, linear.num_inputs);
        prepare_row(linear, out, prepared(linear, row, thread));
    }

    static void zero_tail(float *row, int n) { memset(row + n, 0, (round_up(n, K_MULTIPLE) - n) * sizeof(float)); }

    // f(first output, count, sums [rows][PANEL]) for each panel of `linear` over the prepared rows.
    template <class F> void each_panel(const fr_linear &linear, int num_rows, int thread, F f) {
        each_piece(team_, num_threads_, thread, num_panels(linear.num_outputs), [&](int panel) {
            float *sums = sums_[thread];
            multiply(linear, panel, prepared_rows(thread), num_rows, sums);
            const int first = panel * PANEL, left = linear.num_outputs - first;
            const int count = left < PANEL ? left : PANEL;
            if (linear.bias)
                for (int r = 0; r < num_rows; ++r)
                    for (int i = 0; i < count; ++i) sums[r * PANEL + i] += linear.bias[first + i];
            f(first, count, sums);
        });
    }

    void multiply_into(const fr_linear &linear, float *out, int num_rows, int thread) {
        each_panel(linear, num_rows, thread, [&](int first, int count, const float *sums) {
            for (int r = 0; r < num_rows; ++r)
                memcpy(out + (size_t)r * linear.num_outputs + first, sums + r * PANEL, count * sizeof(float));
        });
    }

    // A panel holds the gates of 16 outputs and the ups of the same.
    void multiply_gated(const fr_linear &linear, int thread) {
        each_panel(linear, pass_.num_rows, thread, [&](int first, int, const float *sums) {
            const int column = first / 2;
            for (int r = 0; r < pass_.num_rows; ++r)
                for (int v = 0; v < HALF; v += W) {
                    const float *gates = sums + r * PANEL + v;
                    store(gated_ + (size_t)r * gated_stride_ + column + v,
                          gated(decoder_.activation, load(gates), load(gates + HALF)));
                }
        });
    }

    // The residual stream takes the linear's output, through a norm first where the family has one there.
    void add_to_stream(const fr_linear &linear, const float *norm, int thread) {
        const int hidden = decoder_.hidden;
        if (!norm) {
            each_panel(linear, pass_.num_rows, thread, [&](int first, int count, const float *sums) {
                for (int r = 0; r < pass_.num_rows; ++r)
                    for (int i = 0; i < count; ++i) pass_.x[(size_t)r * hidden + first + i] += sums[r * PANEL + i];
            });
            return;
        }
        multiply_into(linear, branch_, pass_.num_rows, thread);
        each_row(thread, [&](int r) {
            float *out = row_scratch_[thread];
            rms_norm(branch_ + (size_t)r * hidden, norm, decoder_.norm_eps, hidden, out);
            for (int i = 0; i < hidden; ++i) pass_.x[(size_t)r * hidden + i] += out[i];
        });
    }

    // Norms and turns heads, and stores keys and values. Rows that lie in one tile of the pool write to the same lines
    // of memory, so a piece is many rows of one kv head.
    void place_heads(int l, int thread) {
        const int num_heads = pass_.num_rows < FEW_ROWS ? decoder_.num_kv_heads : 1; // of a piece
        const int by_head = decoder_.num_kv_heads / num_heads;
        const int num_pieces = (pass_.num_rows + SLOT_TILE - 1) / SLOT_TILE * by_head;
        team_.share(thread, num_pieces, [&](int piece) {
            const int first = piece / by_head * SLOT_TILE, head = piece % by_head * num_heads;
            for (int row = first; row < first + SLOT_TILE && row < pass_.num_rows; ++row)
                for (int h = head; h < head + num_heads; ++h) place_head(l, row, h);
        });
    }

    void place_head(int l, int row, int kv_head) {
        const fr_layer &layer = decoder_.layers[l];
        const int d = decoder_.head_dim, half = d / 2;
        const float *cosines = pass_.cosines[layer.rotary] + (size_t)row * half;
        const float *sines = pass_.sines[layer.rotary] + (size_t)row * half;
        float *heads = qkv_ + (size_t)row * layer.qkv.num_outputs;
        float *key = heads + (decoder_.num_heads + kv_head) * d;
        const auto turn = [&](float *head, const float *norm) {
            if (norm) rms_norm(head, norm, decoder_.norm_eps, d, head);
            rotate(head, cosines, sines, half);
        };
        for (int h = 0; h < shared_; ++h) turn(heads + (kv_head * shared_ + h) * d, layer.query_norm);
        turn(key, layer.key_norm);
        store_heads(pool_layer(l), kv_head, pass_.slots[row], key, key + decoder_.num_kv_heads * d);
    }

    PoolLayer pool_layer(int l) const {
        const bool has_scales = pass_.pool_kind == FR_INT8;
        return {pass_.pool_kind, decoder_.num_kv_heads, decoder_.head_dim, pass_.num_slots, (char *)pass_.keys[l],
                (char *)pass_.values[l], has_scales ? pass_.key_scales[l] : nullptr,
                has_scales ? pass_.value_scales[l] : nullptr};
    }

    void attend(int l, int thread) {
        const fr_layer &layer = decoder_.layers[l];
        const AttentionPlan &plan = plan_of(layer.window);
        const PoolLayer pool = pool_layer(l);
        const AttentionSettings settings{decoder_.attention_softcap, layer.window};
        team_.share(thread, (int)plan.items.size(), [&](int i) {
            const AttentionItem &item = plan.items[i];
            const AttentionTile &tile = plan.tiles[item.tile];
            AttentionScratch scratch = scratch_[thread];
            if (item.partial >= 0) scratch.chunk = partial(item.partial);
            stage_queries(tile, item.kv_head, layer.qkv.num_outputs, scratch.queries);
            const int num_queries = tile.num_rows * shared_;
            memset(scratch.total.sum, 0, num_queries * sizeof(float));
            for (int chunk = item.begin; chunk < item.end; ++chunk) {
#if defined(__AVX512BF16__)
                if (pool.kind != FR_FP32)
                    attend_chunk<Bf16Attention>(tile, pass_.positions, pool, item.kv_head, shared_, chunk, settings, scratch);
                else
#endif
                    attend_chunk<Fp32Attention>(tile, pass_.positions, pool, item.kv_head, shared_, chunk, settings, scratch);
                if (item.partial < 0) merge(scratch.total, scratch.chunk, num_queries, width_);
            }
            if (item.partial < 0) give_out(tile, item.kv_head, scratch.total);
        });
        if (!plan.is_split) return;
        team_.share(thread, (int)plan.tiles.size() * decoder_.num_kv_heads, [&](int i) {
            const AttentionTile &tile = plan.tiles[i / decoder_.num_kv_heads];
            Partial total = scratch_[thread].total;
            const int num_queries = tile.num_rows * shared_;
            memset(total.sum, 0, num_queries * sizeof(float));
            for (const AttentionItem &item : plan.items)
                if (item.tile == i / decoder_.num_kv_heads && item.kv_head == i % decoder_.num_kv_heads)
                    merge(total, partial(item.partial), num_queries, width_);
            give_out(tile, i % decoder_.num_kv_heads, total);
        });
    }

    void stage_queries(const AttentionTile &tile, int kv_head, int stride, float *queries) {
        const int d = decoder_.head_dim;
        for (int q = 0; q < tile.num_rows * shared_; ++q) {
            const float *head = qkv_ + (size_t)tile.rows[q / shared_] * stride + (kv_head * shared_ + q % shared_) * d;
            float *out = queries + q * width_;
            for (int i = 0; i < d; ++i) out[i] = head[i] * decoder_.attention_scale;
#if defined(__AVX512BF16__)
            if (pass_.pool_kind != FR_FP32) Bf16Attention::stage(out, d, out);
#endif
        }
    }

    void give_out(const AttentionTile &tile, int kv_head, Partial total) {
        const int d = decoder_.head_dim;
        for (int q = 0; q < tile.num_rows * shared_; ++q) {
            float *out = mixed_ + tile.rows[q / shared_] * mixed_stride_ + (kv_head * shared_ + q % shared_) * d;
            for (int i = 0; i < d; ++i) out[i] = total.mixed[q * width_ + i] / total.sum[q];
        }
    }

    Partial partial(int index) const {
        const int num_queries = TILE * shared_;
        float *at = partials_ + (size_t)index * num_queries * (width_ + 2);
        return {at, at + num_queries, at + 2 * num_queries};
    }

    void head(int thread) {
        const int num_rows = pass_.num_logit_rows;
        const auto prepare = [&](int i) {
            prepare_normed(decoder_.head, decoder_.final_norm, pass_.x + pass_.logit_rows[i] * decoder_.hidden, i, thread);
        };
        if (has_few_rows_)
            for (int i = 0; i < num_rows; ++i) prepare(i);
        else
            team_.share(thread, num_rows, prepare);
        multiply_into(decoder_.head, pass_.logits, num_rows, thread);
        if (decoder_.final_softcap == 0.0f) return;
        const float cap = decoder_.final_softcap;
        team_.share(thread, num_rows, [&](int i) {
            float *row = pass_.logits + (size_t)i * decoder_.head.num_outputs;
            int n = 0;
            float tail[W] = {};
            for (; n + W <= decoder_.head.num_outputs; n += W) store(row + n, tanh(load(row + n) / cap) * cap);
            memcpy(tail, row + n, (decoder_.head.num_outputs - n) * sizeof(float));
            store(tail, tanh(load(tail) / cap) * cap);
            memcpy(row + n, tail, (decoder_.head.num_outputs - n) * sizeof(float));
        });
    }

    const AttentionPlan &plan_of(int window) const {
        for (const AttentionPlan &plan : plans_)
            if (plan.window == window) return plan;
        abort(); // every layer's window was planned
    }

    void plan_attention() {
        for (int l = 0; l < decoder_.num_layers; ++l) {
            const int window = decoder_.layers[l].window;
            bool is_planned = false;
            for (const AttentionPlan &plan : plans_) is_planned |= plan.window == window;
            if (!is_planned) plans_.push_back(plan_window(window));
        }
    }

    AttentionPlan plan_window(int window) const {
        AttentionPlan plan{window, {}, {}, false, 0};
        for (int g = 0; g < pass_.num_groups; ++g)
            for (int64_t at = pass_.group_row_start[g]; at < pass_.group_row_start[g + 1]; at += TILE) {
                const int64_t left = pass_.group_row_start[g + 1] - at;
                AttentionTile tile{pass_.group_rows + at, pass_.group_slots + pass_.group_slot_start[g],
                                   (int)(left < TILE ? left : TILE), INT32_MAX, 0};
                for (int r = 0; r < tile.num_rows; ++r) {
                    const int position = (int)pass_.positions[tile.rows[r]];
                    const int first = window && position >= window ? position - window + 1 : 0;
                    tile.first_key = first < tile.first_key ? first : tile.first_key;
                    tile.num_keys = position + 1 > tile.num_keys ? position + 1 : tile.num_keys;
                }
                plan.tiles.push_back(tile);
            }
        int longest = 0;
        for (const AttentionTile &tile : plan.tiles) longest = tile.num_keys > longest ? tile.num_keys : longest;
        plan.is_split = longest > CHUNK && (int)plan.tiles.size() * decoder_.num_kv_heads < 4 * num_threads_;
        for (int t = 0; t < (int)plan.tiles.size(); ++t) {
            const int begin = plan.tiles[t].first_key / CHUNK, end = (plan.tiles[t].num_keys - 1) / CHUNK + 1;
            // The chunks of one head lie beside each other in memory, so they are worked on one after the other.
            const int step = plan.is_split ? 1 : end - begin;
            for (int h = 0; h < decoder_.num_kv_heads; ++h)
                for (int chunk = begin; chunk < end; chunk += step)
                    plan.items.push_back({t, h, chunk, chunk + step, plan.is_split ? plan.num_partials++ : -1});
        }
        return plan;
    }

    void lay_out(Arena &arena) {
        const size_t rows = pass_.num_rows > pass_.num_logit_rows ? pass_.num_rows : pass_.num_logit_rows;
        const int inner = decoder_.num_heads * decoder_.head_dim;
        int widest = decoder_.hidden > decoder_.intermediate ? decoder_.hidden : decoder_.intermediate;
        widest = round_up(inner > widest ? inner : widest, K_MULTIPLE);
        mixed_stride_ = round_up(inner, K_MULTIPLE);
        gated_stride_ = round_up(decoder_.intermediate, K_MULTIPLE);
        qkv_ = arena.take<float>(rows * (inner + 2 * decoder_.num_kv_heads * decoder_.head_dim));
        mixed_ = arena.take<float>(rows * mixed_stride_);
        gated_ = arena.take<float>(rows * gated_stride_);
        branch_ = arena.take<float>(rows * decoder_.hidden);
        has_few_rows_ = rows <= FEW_ROWS;
        prepared_bytes_ = rows * widest * sizeof(float);
        prepared_ = arena.take<char>(prepared_bytes_ * (has_few_rows_ ? num_threads_ : 1));
        int num_partials = 0;
        for (const AttentionPlan &plan : plans_) num_partials = plan.num_partials > num_partials ? plan.num_partials : num_partials;
        const int queries = TILE * shared_;
        partials_ = arena.take<float>((size_t)num_partials * queries * (width_ + 2));
        row_scratch_.resize(num_threads_);
        sums_.resize(num_threads_);
        scratch_.resize(num_threads_);
        for (int t = 0; t < num_threads_; ++t) {
            row_scratch_[t] = arena.take<float>(widest);
            sums_[t] = arena.take<float>(rows * PANEL);
            AttentionScratch &scratch = scratch_[t];
            scratch.gathered = arena.take<float>((size_t)KEY_BLOCK * width_);
            scratch.block = arena.take<float>((size_t)KEY_BLOCK * width_);
            scratch.scores = arena.take<float>((size_t)queries * CHUNK);
            scratch.queries = arena.take<float>((size_t)queries * width_);
            for (Partial *partial : {&scratch.chunk, &scratch.total})
                *partial = {arena.take<float>(queries), arena.take<float>(queries), arena.take<float>((size_t)queries * width_)};
        }
    }

    Team &team_;
    const int num_threads_;
    const fr_decoder &decoder_;
    const fr_pass &pass_;
    const int shared_, width_; // query heads of a kv head; head_dim as the pool pads it
    size_t mixed_stride_ = 0, gated_stride_ = 0, prepared_bytes_ = 0;
    bool has_few_rows_ = false;
    float *qkv_, *mixed_, *gated_, *branch_, *partials_;
    char *prepared_;
    std::vector<float *> row_scratch_, sums_;
    std::vector<AttentionScratch> scratch_;
    std::vector<AttentionPlan> plans_;
};
