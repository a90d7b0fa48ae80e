// The C interface of forerun's CPU kernels. One library is built per instruction set ("path") from the same sources;
// the caller picks one (kernels.py). Nothing here knows torch: pointers, counts, numbers.
//
// Where to read on: decoder_pass.h is how a row travels, linear.h and attention.h are the two loops that cost time,
// thread_team.h is how threads share work. Every sum has one order that does not depend on how many rows, sequences or
// threads take part.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Number types: of weights and of the pool. FR_BLOCKS: blocks of a GGUF file as they are, each panel of its own format.
enum { FR_FP32 = 0, FR_BF16 = 1, FR_INT8 = 2, FR_BLOCKS = 3 };

// Formats of blocks, with the numbers that GGUF files give them.
enum { FR_Q4_0 = 2, FR_Q4_1 = 3, FR_Q5_0 = 6, FR_Q5_1 = 7, FR_Q8_0 = 8, FR_Q4_K = 12, FR_Q5_K = 13, FR_Q6_K = 14 };

// A panel of 32 outputs in blocks. An fr_linear of kind FR_BLOCKS has an array of these, one a panel, as its weights.
typedef struct {
    int64_t format;
    void *blocks;
} fr_block_panel;

enum { FR_SILU = 0, FR_GELU_TANH = 1 };

// y = W x + b. `weights` are panels made by fr_pack; `bias` is fp32 [num_outputs] or null.
typedef struct {
    int32_t kind, num_outputs, num_inputs;
    const void *weights;
    const float *bias;
} fr_linear;

// One block. Norm weights are fp32; null where the family has no such norm. `gate_up` holds gate and up panels in turn.
// `window` is the number of keys that a row sees, 0 for all; `rotary` counts the tables of fr_pass.
typedef struct {
    fr_linear qkv, output, gate_up, down;
    const float *attention_norm, *query_norm, *key_norm, *attention_output_norm, *mlp_norm, *mlp_output_norm;
    int32_t window, rotary;
} fr_layer;

typedef struct {
    int32_t hidden, intermediate, num_heads, num_kv_heads, head_dim, num_layers, activation;
    float norm_eps, attention_scale;
    float attention_softcap, final_softcap; // 0: none
    const fr_layer *layers;
    const float *final_norm;
    fr_linear head;
} fr_decoder;

// One flat pass. Rows are fp32 [num_rows][hidden]; `x` holds embeddings and, afterwards, the last block's states.
// Group g has rows group_rows[group_row_start[g] .. group_row_start[g + 1]) and the slot of position p is
// group_slots[group_slot_start[g] + p]. Cosines and sines: per rotary kind fp32 [num_rows][head_dim / 2].
// Pool layers hold `num_slots` slots, whole 16s, in `pool_kind`, laid out as pool.h says; int8 has scales.
// `taps[l]` receives the states after block l, or is null; `normed` all rows after the final norm, or is null.
typedef struct {
    int32_t num_rows, num_groups, num_logit_rows, pool_kind;
    int64_t num_slots;
    float *x;
    const int64_t *positions, *slots;
    const int64_t *group_row_start, *group_rows, *group_slot_start, *group_slots;
    const float *const *cosines, *const *sines;
    void *const *keys, *const *values;
    float *const *key_scales, *const *value_scales;
    float *const *taps;
    float *normed;
    const int64_t *logit_rows;
    float *logits; // fp32 [num_logit_rows][vocabulary]
} fr_pass;

typedef struct fr_team fr_team;

int64_t fr_sources(void);     // which text of these sources the library was built from (build.py)
const char *fr_path(void);      // name of the instruction set that this library was built for
int fr_start(void);             // 1 if this process may use it (the kernel has to grant AMX), else 0
fr_team *fr_new_team(void);     // threads that work together; they start when first needed
void fr_free_team(fr_team *);

// Packed size of [num_outputs][num_inputs] in bytes, and packing of row-major fp32 or bf16 weights into zeroed memory.
// Half panel i (16 outputs) of the matrix becomes half panel first + i * stride of `packed`: gate and up take turns.
int64_t fr_packed_bytes(int32_t kind, int32_t num_outputs, int32_t num_inputs);
void fr_pack(int32_t kind, const void *weights, int32_t num_outputs, int32_t num_inputs, void *packed, int32_t first,
             int32_t stride);
// The same for blocks: rows as a GGUF file holds them, into the zeroed memory that `panels` of that format point to.
// fr_pack_blocks returns 0 if a scale isn't finite, else 1.
int64_t fr_block_panel_bytes(int32_t format, int32_t num_inputs);
int fr_pack_blocks(int32_t format, const void *rows, int32_t num_outputs, int32_t num_inputs, const fr_block_panel *panels,
                   int32_t first, int32_t stride);
// Rows `ids` of packed weights, back as fp32 [num_ids][num_inputs]: a tied head is the embedding.
void fr_unpack_rows(const fr_linear *, const int64_t *ids, int32_t num_ids, float *rows);

// y[num_rows][num_outputs] = linear(x[num_rows][num_inputs]).
void fr_run_linear(fr_team *, int32_t num_threads, const fr_linear *, const float *x, int32_t num_rows, float *y);
void fr_forward(fr_team *, int32_t num_threads, const fr_decoder *, const fr_pass *);
// The decoder's linears over `num_rows` rows of zeros and nothing else: the floor under a pass, for measuring.
void fr_run_linears_alone(fr_team *, int32_t num_threads, const fr_decoder *, int32_t num_rows);

#ifdef __cplusplus
}
#endif
