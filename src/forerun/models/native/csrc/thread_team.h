// Threads that work on one pass together. The caller is one of them; the others wait for the next pass, awake for a
// moment and then asleep.
//
// A pass is a sequence of phases, and a phase is over when its pieces are done, not when all threads have come by: a
// thread whose core is busy with something else holds up nothing unless it holds a piece. It finds later that the
// phase has moved on, and catches up. So a busy neighbour costs a share of the machine and never a stall.
#pragma once
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <stdint.h>

class Team {
  public:
    ~Team();

    // Runs task(argument, thread) on up to num_threads threads and returns when all that began have ended. Every thread
    // must come to the same phases in the same order. One run at a time. A forked process has none of the threads: it
    // needs a team of its own.
    void run(int num_threads, void (*task)(void *, int), void *argument);

    // Inside a task: one phase. f(i) for every i in 0 .. count - 1, each on whichever thread is free; returns when all
    // are done. `thread` is the task's.
    template <class F> void share(int thread, int count, F f) {
        const uint64_t phase = phases_[thread].number++;
        for (;;) {
            uint64_t at = place_.load(std::memory_order_acquire);
            if (at >> 32 != phase) return; // done, by others
            const int piece = (int)(uint32_t)at;
            if (piece >= count) {
                if (count == 0)
                    move_on(phase, 0);
                else
                    wait_beyond(phase);
                return;
            }
            if (!place_.compare_exchange_weak(at, at + 1, std::memory_order_acq_rel)) continue;
            f(piece);
            if (num_done_.fetch_add(1, std::memory_order_acq_rel) == count - 1) {
                num_done_.store(0, std::memory_order_relaxed);
                move_on(phase, count);
                return;
            }
        }
    }

  private:
    struct alignas(64) Phase {
        uint64_t number;
    };

    void move_on(uint64_t phase, int count);
    void wait_beyond(uint64_t phase);
    void work(int thread, uint32_t seen);
    void grow(int num_threads);

    std::mutex one_run_;
    std::vector<std::thread> workers_;
    std::vector<Phase> phases_; // by thread: how many phases of this run it has come to
    void (*task_)(void *, int) = nullptr;
    void *argument_ = nullptr;
    // The door of a run: its number, whether it is closed, how many threads may take part, how many are inside.
    alignas(64) std::atomic<uint64_t> door_{1ull << 32 | 1ull << 31};
    std::atomic<uint32_t> num_opened_{0}, num_left_{0}; // what sleepers at the door watch
    alignas(64) std::atomic<uint64_t> place_{0};  // phase, and the next piece of it
    alignas(64) std::atomic<int> num_done_{0};    // pieces of the phase that are done
    std::atomic<uint32_t> phase_ended_{0};        // what sleepers watch: changes with every phase
};
