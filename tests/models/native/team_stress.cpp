// Runs of a team with changing thread counts, phases of changing sizes, sleeps in which the workers fall asleep, two
// callers at once, and teams that end while their workers are awake or asleep. Exits with 1 when a piece was left out
// or done twice. Compiled and run by test_thread_team.py, with ThreadSanitizer.
#include <chrono>
#include <stdio.h>
#include <thread>
#include <vector>

#include "thread_team.h"

constexpr int NUM_PHASES = 7, MOST_PIECES = 40;

struct Job {
    Team &team;
    int seed;
    int done[NUM_PHASES][MOST_PIECES] = {}; // plain: a phase must order what the next one reads

    int count(int phase) const { return (seed * 7 + phase * 11) % MOST_PIECES; }

    void work(int thread) {
        for (int phase = 0; phase < NUM_PHASES; ++phase)
            team.share(thread, count(phase), [&](int piece) {
                const int before = phase ? count(phase - 1) : 0; // pieces that any thread may have done
                const bool is_seen = !before || done[phase - 1][piece % before] == 1;
                done[phase][piece] += is_seen ? 1 : 100;
            });
    }

    bool is_right() const {
        for (int phase = 0; phase < NUM_PHASES; ++phase)
            for (int piece = 0; piece < MOST_PIECES; ++piece)
                if (done[phase][piece] != (piece < count(phase) ? 1 : 0)) return false;
        return true;
    }
};

static bool run_many(Team &team, int from, int to) {
    for (int seed = from; seed < to; ++seed) {
        Job job{team, seed};
        team.run(1 + seed % 6, [](void *self, int thread) { ((Job *)self)->work(thread); }, &job);
        if (!job.is_right()) return false;
        if (seed % 97 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

int main() {
    bool is_right = true;
    for (int round = 0; round < 5; ++round) {
        Team team;
        bool is_other_right = false;
        std::thread other([&] { is_other_right = run_many(team, 1000, 2000); });
        is_right = run_many(team, 0, 1000) && is_right;
        other.join();
        is_right = is_right && is_other_right;
        if (round % 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    puts(is_right ? "right" : "a piece was left out or done twice");
    return is_right ? 0 : 1;
}
