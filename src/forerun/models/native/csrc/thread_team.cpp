#include "thread_team.h"

#include <chrono>
#include <unistd.h>

namespace {

// How long a thread stays awake: between the phases of a pass, and between passes. A phase takes microseconds; the work
// between two passes (drafting, sampling) a few hundred. Waking a sleeping thread costs about fifty.
constexpr std::chrono::microseconds AWAKE_IN_PASS{30}, AWAKE_BETWEEN{400};

// A run's number and, in the low byte, how many threads take part: a thread that doesn't may see a run late, when the
// team's other fields already belong to the next one, so it must learn both at once.
inline int next_run(int run, int num_threads) { return (int)(((unsigned)run >> 8) + 1) << 8 | num_threads; }
inline int num_taking_part(int run) { return run & 255; }

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Until `value` is no longer `old`.
void await(const std::atomic<int> &value, int old, std::chrono::microseconds awake) {
    for (int i = 0; i < 200; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        pause();
    }
    const auto end = std::chrono::steady_clock::now() + awake;
    do {
        for (int i = 0; i < 50; ++i) {
            if (value.load(std::memory_order_acquire) != old) return;
            pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    value.wait(old, std::memory_order_acquire);
}

} // namespace

Team::~Team() {
    if (owner_ != getpid()) {
        for (auto &worker : workers_) worker.detach();
        return;
    }
    is_ending_ = true;
    run_.store(next_run(run_.load(), 0), std::memory_order_release);
    run_.notify_all();
    for (auto &worker : workers_) worker.join();
}

void Team::grow(int num_threads) {
    if (owner_ != getpid()) {
        for (auto &worker : workers_) worker.detach();
        workers_.clear();
        owner_ = getpid();
    }
    while ((int)workers_.size() < num_threads - 1) {
        const int thread = (int)workers_.size() + 1;
        workers_.emplace_back(&Team::work, this, thread, run_.load());
    }
}

void Team::run(int num_threads, void (*task)(void *, int), void *argument) {
    const std::lock_guard<std::mutex> lock(one_run_);
    num_threads = num_threads < 1 ? 1 : num_threads > 255 ? 255 : num_threads;
    grow(num_threads);
    task_ = task;
    argument_ = argument;
    num_threads_ = num_threads;
    next_.store(0, std::memory_order_relaxed);
    if (num_threads > 1) {
        run_.store(next_run(run_.load(), num_threads), std::memory_order_release);
        run_.notify_all();
    }
    task(argument, 0);
    meet();
}

void Team::work(int thread, int seen) {
    for (;;) {
        await(run_, seen, AWAKE_BETWEEN);
        seen = run_.load(std::memory_order_acquire);
        if (is_ending_) return;
        if (thread >= num_taking_part(seen)) continue;
        task_(argument_, thread);
        meet();
    }
}

void Team::meet() {
    if (num_threads_ == 1) {
        next_.store(0, std::memory_order_relaxed);
        return;
    }
    const int meeting = meeting_.load(std::memory_order_relaxed);
    if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) == num_threads_ - 1) {
        num_arrived_.store(0, std::memory_order_relaxed);
        next_.store(0, std::memory_order_relaxed);
        meeting_.store(meeting + 1, std::memory_order_release);
        meeting_.notify_all();
    } else {
        await(meeting_, meeting, AWAKE_IN_PASS);
    }
}
