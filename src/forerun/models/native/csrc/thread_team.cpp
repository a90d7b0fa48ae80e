#include "thread_team.h"

#include <chrono>

namespace {

// How long a thread stays awake: between the phases of a pass, and between passes. A phase takes microseconds; the work
// between two passes (drafting, sampling) a few hundred. Waking a sleeping thread costs about fifty.
constexpr std::chrono::microseconds AWAKE_IN_PASS{50}, AWAKE_BETWEEN{400};

// Parts of the door. Everything that a late thread must know at once is in this one word: it may wake when the run that
// it was meant for is over and the next one is under way.
constexpr uint64_t CLOSED = 1ull << 31;
constexpr int MOST_THREADS = 255;
inline uint32_t run_of(uint64_t door) { return (uint32_t)(door >> 32); }
inline int threads_of(uint64_t door) { return (int)(door >> 16 & MOST_THREADS); }
inline uint64_t empty_door(uint32_t run, int num_threads) { return (uint64_t)run << 32 | (uint64_t)num_threads << 16; }

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Until is_over(): awake at first, then asleep for as long as `watched` keeps the value it had before is_over() last
// said no.
template <class F> void await(const std::atomic<uint32_t> &watched, std::chrono::microseconds awake, F is_over) {
    for (int i = 0; i < 200; ++i) {
        if (is_over()) return;
        pause();
    }
    const auto end = std::chrono::steady_clock::now() + awake;
    do {
        for (int i = 0; i < 50; ++i) {
            if (is_over()) return;
            pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    for (;;) {
        const uint32_t before = watched.load(std::memory_order_acquire);
        if (is_over()) return;
        watched.wait(before, std::memory_order_acquire);
    }
}

} // namespace

Team::~Team() {
    door_.store(CLOSED, std::memory_order_release); // no run has number 0
    num_opened_.fetch_add(1, std::memory_order_release);
    num_opened_.notify_all();
    for (auto &worker : workers_) worker.join();
}

void Team::grow(int num_threads) {
    if ((int)phases_.size() < num_threads) phases_.resize(num_threads);
    while ((int)workers_.size() < num_threads - 1) {
        const int thread = (int)workers_.size() + 1;
        workers_.emplace_back(&Team::work, this, thread, run_of(door_.load()));
    }
}

void Team::run(int num_threads, void (*task)(void *, int), void *argument) {
    const std::lock_guard<std::mutex> lock(one_run_);
    num_threads = num_threads < 1 ? 1 : num_threads > MOST_THREADS ? MOST_THREADS : num_threads;
    grow(num_threads); // nobody is inside: the last run is closed
    task_ = task;
    argument_ = argument;
    for (Phase &phase : phases_) phase.number = 0;
    num_done_.store(0, std::memory_order_relaxed);
    place_.store(0, std::memory_order_relaxed);
    const uint32_t last = run_of(door_.load()), run = last == UINT32_MAX ? 1 : last + 1;
    const uint64_t empty = empty_door(run, num_threads);
    door_.store(empty + 1, std::memory_order_release); // this thread is inside
    num_opened_.fetch_add(1, std::memory_order_release);
    num_opened_.notify_all();
    task(argument, 0);
    // Whoever has not begun finds the door closed; whoever has is waited for.
    door_.fetch_sub(1, std::memory_order_acq_rel);
    await(num_left_, AWAKE_IN_PASS, [&] {
        uint64_t door = empty;
        return door_.compare_exchange_strong(door, empty | CLOSED, std::memory_order_acq_rel);
    });
}

void Team::work(int thread, uint32_t seen) {
    for (;;) {
        await(num_opened_, AWAKE_BETWEEN, [&] { return run_of(door_.load(std::memory_order_acquire)) != seen; });
        uint64_t door = door_.load(std::memory_order_acquire);
        seen = run_of(door);
        if (seen == 0) return;
        bool is_inside = false;
        while (!is_inside && run_of(door) == seen && !(door & CLOSED) && thread < threads_of(door))
            is_inside = door_.compare_exchange_weak(door, door + 1, std::memory_order_acq_rel);
        if (!is_inside) continue;
        task_(argument_, thread);
        door_.fetch_sub(1, std::memory_order_acq_rel);
        num_left_.fetch_add(1, std::memory_order_release);
        num_left_.notify_all();
    }
}

// All pieces of the phase are done, so nobody else changes the place, except that a phase without any is left by
// whoever is first.
void Team::move_on(uint64_t phase, int count) {
    uint64_t at = phase << 32 | (uint64_t)count;
    if (!place_.compare_exchange_strong(at, (phase + 1) << 32, std::memory_order_acq_rel)) return;
    phase_ended_.fetch_add(1, std::memory_order_release);
    phase_ended_.notify_all();
}

void Team::wait_beyond(uint64_t phase) {
    await(phase_ended_, AWAKE_IN_PASS, [&] { return place_.load(std::memory_order_acquire) >> 32 != phase; });
}
