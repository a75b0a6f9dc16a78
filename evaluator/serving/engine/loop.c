/* The closed loop in C: what loop_twin.py does, statement by statement, in whole numbers. Requests are numbered as they
   arrive, and their prompts are one line of tokens. And the sums of weights that a schedule is made of, to the last bit. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct loop {
    /* rules */
    int64_t prefill_first, budget, poll, users, requests, each, ahead, whole;
    /* requests: ends of the prompts of the first n of them, and steps of each */
    int64_t count, longest;
    const int64_t *ends, *outputs;
    /* what comes out: equal steps, decodes in each, position after, step number after; freed by sweepdb_free */
    int64_t *steps, size;
};

struct state {
    const struct loop *loop;
    int64_t *steps, size, room;
    int64_t step, position, begun, active, seated, last;
    /* a calendar: how many requests end in which step; `busy` marks its steps, so that the next one is found quickly */
    int64_t *last_tokens, calendar;
    unsigned char *busy;
    /* (step before which they are seen, requests) of those that come after steps that were scheduled ahead */
    int64_t *seen_at, *seen, first_coming, past_coming;
    int failed;
};

static int64_t smaller(int64_t one, int64_t other) { return other < one ? other : one; }

static int64_t larger(int64_t one, int64_t other) { return other > one ? other : one; }

static void took(struct state *state, int64_t equal, int64_t decodes) {
    if (state->size + 4 > state->room) {
        int64_t room = 2 * state->room + 4096;
        int64_t *steps = realloc(state->steps, (size_t)room * sizeof *steps);
        if (steps == NULL) {
            state->failed = 1;
            return;
        }
        state->steps = steps;
        state->room = room;
    }
    int64_t *row = state->steps + state->size;
    row[0] = equal;
    row[1] = decodes;
    row[2] = state->position;
    row[3] = state->step;
    state->size += 4;
}

static void retire(struct state *state) {
    int64_t ended = state->last_tokens[state->step];
    state->last_tokens[state->step] = 0;
    state->busy[state->step] = 0;
    state->active -= ended;
    if (state->loop->ahead) {
        int64_t seen_at = state->step + state->loop->ahead;
        if (state->past_coming > state->first_coming && state->seen_at[state->past_coming - 1] == seen_at) {
            ended += state->seen[--state->past_coming]; /* answers of one token end with others */
        }
        state->seen_at[state->past_coming] = seen_at;
        state->seen[state->past_coming++] = ended;
    } else {
        state->seated = smaller(state->seated + ended, state->last);
    }
}

static int goes_on(struct state *state) {
    while (state->first_coming < state->past_coming &&
           (state->seen_at[state->first_coming] <= state->step ||
            !(state->active || state->begun < state->seated))) {
        state->seated = smaller(state->seated + state->seen[state->first_coming++], state->last);
    }
    return !state->failed && (state->active || state->begun < state->seated);
}

/* Steps until the next request that has come is seen; -1 where nobody comes. */
static int64_t unseen(const struct state *state) {
    return state->first_coming < state->past_coming ? state->seen_at[state->first_coming] - state->step : -1;
}

static int calendar_up_to(struct state *state, int64_t step) {
    if (step < state->calendar) {
        return 1;
    }
    int64_t room = 2 * step + 1024;
    int64_t *last_tokens = realloc(state->last_tokens, (size_t)room * sizeof *last_tokens);
    if (last_tokens != NULL) {
        state->last_tokens = last_tokens;
    }
    unsigned char *busy = realloc(state->busy, (size_t)room);
    if (busy != NULL) {
        state->busy = busy;
    }
    if (last_tokens == NULL || busy == NULL) {
        state->failed = 1;
        return 0;
    }
    memset(last_tokens + state->calendar, 0, (size_t)(room - state->calendar) * sizeof *last_tokens);
    memset(busy + state->calendar, 0, (size_t)(room - state->calendar));
    state->calendar = room;
    return 1;
}

/* The first tokens of requests are out. */
static void start(struct state *state) {
    const struct loop *loop = state->loop;
    int64_t base = state->step - 1, first = state->begun, until = first + 1;
    while (until < state->seated && loop->ends[until + 1] <= state->position) {
        until++;
    }
    state->begun = until;
    state->active += until - first;
    if (!calendar_up_to(state, base + loop->longest)) {
        return;
    }
    for (int64_t request = first; request < until; request++) {
        int64_t end = base + loop->outputs[request];
        state->busy[end] = 1;
        state->last_tokens[end]++;
    }
    if (state->busy[state->step]) { /* answers of one token */
        retire(state);
    }
}

/* Decode steps with nothing else in them, up to the next answer; `most` of them, -1: as many as there are. */
static void decode(struct state *state, int64_t most) {
    if (!state->active) {
        return;
    }
    int64_t before = state->step, from = before + 1;
    const unsigned char *found = memchr(state->busy + from, 1, (size_t)(state->calendar - from));
    if (found == NULL) { /* never: whoever decodes has an end */
        state->failed = 1;
        return;
    }
    int64_t until = found - state->busy;
    state->step = most < 0 ? until : smaller(until, before + most);
    took(state, state->step - before, state->active);
    if (state->step == until) {
        retire(state);
    }
}

/* Prompts run alone and stop the decodes; new ones are looked for every `poll` decode steps since the last prompts, or
   when idle. */
static void prefill_first(struct state *state) {
    const struct loop *loop = state->loop;
    int64_t looked = 0;
    while (goes_on(state)) {
        int64_t since = state->step - looked;
        if (state->begun < state->seated && (!state->active || (since && since % loop->poll == 0))) {
            int64_t seen = loop->ends[state->seated];
            while (state->position + loop->budget < seen) {
                state->position += loop->budget;
                took(state, 1, 0);
            }
            state->position = seen;
            took(state, 1, 0);
            start(state);
            looked = state->step;
        }
        int waiting = state->begun < state->seated;
        decode(state, waiting ? loop->poll - (state->step - looked) % loop->poll : unseen(state));
    }
}

/* Where a step with room for so many tokens ends the line: with the last prompt that is whole before it, if one is. */
static int64_t position_after(const struct state *state, int64_t room) {
    int64_t until = smaller(state->position + larger(1, room), state->loop->ends[state->seated]), last = state->begun;
    if (!state->loop->whole) {
        return until;
    }
    while (last < state->seated && state->loop->ends[last + 1] <= until) {
        last++;
    }
    return state->loop->ends[last] > state->position ? state->loop->ends[last] : until;
}

/* Decodes first, the rest of the budget to the oldest prompts, cut where it ends. */
static void mixed(struct state *state) {
    const struct loop *loop = state->loop;
    while (goes_on(state)) {
        if (state->begun == state->seated) {
            decode(state, unseen(state));
            continue;
        }
        int64_t decodes = state->active, room = loop->budget - loop->each * decodes;
        state->position = position_after(state, room);
        state->step++;
        took(state, 1, decodes);
        if (decodes && state->busy[state->step]) {
            retire(state); /* what began before this step; the prompts it ended have their first token only now */
        }
        if (state->position >= loop->ends[state->begun + 1]) {
            start(state);
        }
    }
}

int sweepdb_loop(struct loop *loop) {
    struct state state = {.loop = loop};
    size_t coming = loop->ahead ? (size_t)loop->count + 1 : 1;
    state.seen_at = malloc(coming * sizeof *state.seen_at);
    state.seen = malloc(coming * sizeof *state.seen);
    state.failed = state.seen_at == NULL || state.seen == NULL;
    for (int64_t first = 0; first < loop->count && !state.failed; first += loop->requests) {
        state.last = first + loop->requests;
        state.seated = smaller(first + loop->users, state.last);
        if (loop->prefill_first) {
            prefill_first(&state);
        } else {
            mixed(&state);
        }
    }
    free(state.seen_at);
    free(state.seen);
    free(state.last_tokens);
    free(state.busy);
    loop->steps = state.steps;
    loop->size = state.size;
    return state.failed;
}

void sweepdb_free(int64_t *steps) { free(steps); }

/* Linear interpolation turned round, as `on_nodes` of schedule.py: what the node below and the node above each place get
   of the weight that belongs to it, one row of weights after the other. `column` is that of the weight. */
void sweepdb_on_nodes(int64_t rows, int64_t columns, const double *weights, int64_t count, const int64_t *column,
                      const double *places, int64_t nodes, double *below, double *above) {
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t number = 0; number < count; number++) {
            double weight = weights[column[number]], place = places[number];
            int64_t node = (int64_t)place;
            double share = place - (double)node;
            below[node] += weight * (1.0 - share);
            above[node + 1] += weight * share;
        }
        weights += columns;
        below += nodes;
        above += nodes + 1;
    }
}
