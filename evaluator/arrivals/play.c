/* The play in C: what twin/ does, statement by statement, equal to the last digit. Compile without contraction of
   products and sums into one rounding, and without any reordering of floating-point arithmetic. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define NUMBER_BITS 31
#define NUMBER_MASK ((1LL << NUMBER_BITS) - 1)

struct shared {
    /* rules */
    int64_t mixed, prefilled, least, reserved_rule, budget, seats, poll, ahead, whole, each, replicas;
    double gain, kv_tokens, reject_s, reject_tbt_s, images_a_step;
    /* prices */
    double step_s, prompt_step_s, per_prompt_s, per_decode_s, prefill_factor, decode_factor;
    int64_t spacing, linear_last, stretches, bins, encoder_last;
    const double *linear, *attention, *own, *own_key, *decode, *decode_key, *edges, *encoder;
    /* requests */
    int64_t count;
    const double *arrive, *stretch, *service, *images, *image_tokens;
    const int64_t *cached, *node, *replica;
    int64_t *prompt, *steps, *begun, *before, *after, *following, *ended, *seen;
    int8_t *ready;
    double *first, *end;
    /* what comes out */
    int64_t *gaps;
    /* of each request where it is asked for, else NULL: longest gap, gap before its second token, and times that it was
       preempted; and when it had its first token since it entered, and its last before it was preempted */
    double *worst, *opening, *since, *lost;
    int64_t *preemptions;
    int64_t preempted;
    double busy_s;
    int64_t out_of_memory;
};

struct stall {
    double last;
    int64_t sequences;
};

struct gap {
    double longest;
    int64_t step;
};

struct replica {
    double clock, busy, reserved, waiting_s, left_at;
    int64_t step, looked, active, in_flight, entered, left;
    int64_t keys_base, keys_steps, entering_keys, queued, queued_keys;
    int64_t expected, expected_last, waiting, waiting_last, newest, partial, partial_done;
    int64_t prompting;
    int64_t *ends, ends_size, ends_room;
    struct stall *stalled;
    int64_t stalled_size, stalled_room;
    struct gap *longest; /* of steps up to each, ever shorter ones */
    int64_t longest_size, longest_room;
};

static double smaller(double one, double other) { return other < one ? other : one; }
static double larger(double one, double other) { return other > one ? other : one; }
static int64_t least_of(int64_t one, int64_t other) { return other < one ? other : one; }
static int64_t most_of(int64_t one, int64_t other) { return other > one ? other : one; }

static double linear_s(const struct shared *play, int64_t tokens) {
    const double place = (double)tokens / (double)play->spacing;
    const int64_t last = play->linear_last;
    if (place >= (double)last) return play->linear[last] * place / (double)last;
    const int64_t low = (int64_t)place;
    return play->linear[low] + (play->linear[low + 1] - play->linear[low]) * (place - (double)low);
}

static double attention_s(const struct shared *play, int64_t request, int64_t tokens) {
    const double place = (double)tokens * play->stretch[request];
    const int64_t low = least_of((int64_t)place, play->stretches - 1);
    const int64_t node = play->node[request] + low;
    return play->attention[node] + (play->attention[node + 1] - play->attention[node]) * (place - (double)low);
}

static double images_until(const struct shared *play, int64_t request, int64_t tokens) {
    const double images = play->images[request], spacing = play->image_tokens[request];
    if (images == 0.0 || tokens == 0) return 0.0;
    return spacing == 0.0 ? images : smaller(images, ceil((double)tokens / spacing));
}

static int64_t piece_of(const struct shared *play, int64_t request, int64_t done, int64_t piece, double room) {
    const double before = images_until(play, request, done);
    if (play->image_tokens[request] == 0.0 || images_until(play, request, done + piece) - before <= room) return piece;
    return most_of(0, (int64_t)((before + (double)(int64_t)room) * play->image_tokens[request]) - done);
}

static double encoder_s(const struct shared *play, double images) {
    const int64_t last = play->encoder_last;
    if (images >= (double)last) return play->encoder[last] * images / (double)last;
    const int64_t low = (int64_t)images;
    return play->encoder[low] + (play->encoder[low + 1] - play->encoder[low]) * (images - (double)low);
}

static void count_gaps(struct shared *play, double shortest, double growth, int64_t steps, int64_t sequences) {
    int64_t step = 0, place = 0;
    const int64_t last = play->bins - 1;
    while (step < steps) {
        const double gap = shortest + growth * (double)step;
        int64_t low = place, high = last, until = steps;
        while (low < high) {
            const int64_t middle = (low + high + 1) / 2;
            if (play->edges[middle] <= gap) low = middle;
            else high = middle - 1;
        }
        place = low;
        if (growth > 0.0 && place < last) {
            const double reached = (play->edges[place + 1] - shortest) / growth;
            if (reached < (double)steps) until = most_of(step + 1, (int64_t)ceil(reached));
        }
        play->gaps[place] += (until - step) * sequences;
        step = until;
    }
}

/* A heap of 64-bit keys; all are different, so the order in which they leave does not depend on the heap. */
static void push_end(struct shared *play, struct replica *here, int64_t key) {
    if (here->ends_size == here->ends_room) {
        const int64_t room = here->ends_room ? 2 * here->ends_room : 1024;
        int64_t *grown = realloc(here->ends, (size_t)room * sizeof *grown);
        if (!grown) {
            play->out_of_memory = 1;
            return;
        }
        here->ends = grown;
        here->ends_room = room;
    }
    int64_t place = here->ends_size++;
    while (place > 0) {
        const int64_t parent = (place - 1) / 2;
        if (here->ends[parent] <= key) break;
        here->ends[place] = here->ends[parent];
        place = parent;
    }
    here->ends[place] = key;
}

static void pop_end(struct replica *here) {
    const int64_t key = here->ends[--here->ends_size], size = here->ends_size;
    int64_t place = 0;
    for (;;) {
        int64_t child = 2 * place + 1;
        if (child >= size) break;
        if (child + 1 < size && here->ends[child + 1] < here->ends[child]) child++;
        if (here->ends[child] >= key) break;
        here->ends[place] = here->ends[child];
        place = child;
    }
    here->ends[place] = key;
}

static void push_stall(struct shared *play, struct replica *here, double last, int64_t sequences) {
    if (here->stalled_size == here->stalled_room) {
        const int64_t room = here->stalled_room ? 2 * here->stalled_room : 64;
        struct stall *grown = realloc(here->stalled, (size_t)room * sizeof *grown);
        if (!grown) {
            play->out_of_memory = 1;
            return;
        }
        here->stalled = grown;
        here->stalled_room = room;
    }
    here->stalled[here->stalled_size].last = last;
    here->stalled[here->stalled_size++].sequences = sequences;
}

static void note_gap(struct shared *play, struct replica *here, int64_t step, double gap) {
    if (!play->worst) return;
    while (here->longest_size && here->longest[here->longest_size - 1].longest <= gap) here->longest_size--;
    if (here->longest_size == here->longest_room) {
        const int64_t room = here->longest_room ? 2 * here->longest_room : 1024;
        struct gap *grown = realloc(here->longest, (size_t)room * sizeof *grown);
        if (!grown) {
            play->out_of_memory = 1;
            return;
        }
        here->longest = grown;
        here->longest_room = room;
    }
    here->longest[here->longest_size].longest = gap;
    here->longest[here->longest_size++].step = step;
}

/* The longest gap of steps after this one. */
static double longest_after(const struct replica *here, int64_t step) {
    int64_t low = 0, high = here->longest_size;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (here->longest[middle].step > step) high = middle;
        else low = middle + 1;
    }
    return low < here->longest_size ? here->longest[low].longest : 0.0;
}

static void keep_worst(struct shared *play, const struct replica *here, int64_t request) {
    if (!play->worst) return;
    const double opening = play->opening[request];
    const double later = longest_after(here, play->begun[request] + (opening >= 0.0 ? 1 : 0));
    play->worst[request] = larger(play->worst[request], larger(opening, later));
}

/* Requests whose second token a step gives after prompts held them up. */
static void note_openings(struct shared *play, const struct replica *here, double first) {
    if (!play->worst) return;
    for (int64_t request = here->newest; request >= 0 && play->begun[request] == here->step; request = play->before[request])
        play->opening[request] = play->since[request] >= 0.0 ? (here->clock - play->since[request]) + first : first;
}

static void note_preempted(struct shared *play, const struct replica *here, int64_t request) {
    if (!play->worst) return;
    play->preemptions[request]++;
    if (play->begun[request] < 0) return;
    if (here->stalled_size && play->begun[request] == here->step && play->since[request] >= 0.0)
        play->lost[request] = play->since[request];
    else
        play->lost[request] = here->stalled_size ? here->stalled[0].last : here->clock;
}

static void expect(struct shared *play, struct replica *here, int64_t request) {
    here->in_flight++;
    if (here->expected < 0) here->expected = request;
    else play->following[here->expected_last] = request;
    here->expected_last = request;
}

static double keys_of(const struct shared *play, const struct replica *here) {
    return (double)here->keys_base + play->gain * (double)here->keys_steps;
}

static int too_dense(const struct shared *play, const struct replica *here, int64_t request) {
    if (play->reject_tbt_s == INFINITY || play->steps[request] == 1) return 0;
    const int64_t sequences = least_of(here->active + here->entered + here->queued + 1, play->seats);
    const int64_t size = play->cached[request] + play->prompt[request];
    const double keys = keys_of(play, here) + (double)(here->entering_keys + here->queued_keys + size);
    return play->decode[sequences] + play->decode_key[sequences] * keys > play->reject_tbt_s;
}

static void receive(struct shared *play, struct replica *here) {
    while (here->expected >= 0 && play->arrive[here->expected] <= here->clock) {
        const int64_t request = here->expected;
        here->expected = play->following[request];
        play->following[request] = -1;
        const double predicted = (here->clock - play->arrive[request]) + here->waiting_s + play->service[request];
        if (predicted > play->reject_s || too_dense(play, here, request)) {
            here->in_flight--;
            continue;
        }
        here->waiting_s += play->service[request];
        here->queued++;
        here->queued_keys += play->cached[request] + play->prompt[request];
        play->seen[request] = here->step + (here->active || here->partial >= 0 ? play->ahead : 0);
        if (here->waiting < 0) here->waiting = request;
        else play->following[here->waiting_last] = request;
        here->waiting_last = request;
    }
}

static int fits(const struct shared *play, const struct replica *here, int64_t request) {
    if (here->active + here->entered >= play->seats) return 0;
    if (here->active + here->entered == 0) return 1;
    if (play->seen[request] > here->step) return 0;
    const double size = (double)(play->cached[request] + play->prompt[request]);
    if (play->reserved_rule) return here->reserved + (size + play->gain * (double)play->steps[request]) <= play->kv_tokens;
    const double held = keys_of(play, here) + (double)here->entering_keys + size;
    return held + play->gain * (double)(here->active + here->entered + 1) <= play->kv_tokens;
}

static int64_t enter(struct shared *play, struct replica *here) {
    const int64_t request = here->waiting;
    here->waiting = play->following[request];
    play->following[request] = -1;
    here->waiting_s = here->waiting >= 0 ? here->waiting_s - play->service[request] : 0.0;
    const int64_t size = play->cached[request] + play->prompt[request];
    here->queued--;
    here->queued_keys -= size;
    here->entered++;
    here->entering_keys += size;
    here->reserved += (double)size + play->gain * (double)play->steps[request];
    return request;
}

static void leave(struct shared *play, struct replica *here, int64_t request, int64_t generated) {
    const int64_t size = play->cached[request] + play->prompt[request];
    here->active--;
    here->keys_base -= size;
    here->keys_steps -= generated;
    here->reserved -= (double)size + play->gain * (double)play->steps[request];
    keep_worst(play, here, request);
    play->begun[request] = -1;
    const int64_t before = play->before[request], after = play->after[request];
    if (before >= 0) play->after[before] = after;
    if (after >= 0) play->before[after] = before;
    else here->newest = before;
}

static void answered(struct shared *play, struct replica *here, int64_t request, double moment) {
    play->end[request] = moment;
    here->in_flight--;
    if (here->left_at != moment) {
        here->left_at = moment;
        here->left = 0;
    }
    here->left++;
}

static int64_t present(const struct replica *here, double moment) {
    return here->in_flight + (here->left_at > moment ? here->left : 0);
}

static void start(struct shared *play, struct replica *here, int64_t request, double moment) {
    const int64_t size = play->cached[request] + play->prompt[request];
    here->entered--;
    here->entering_keys -= size;
    if (play->first[request] < 0.0) play->first[request] = moment;
    if (play->worst) {
        if (play->lost[request] >= 0.0) play->worst[request] = larger(play->worst[request], moment - play->lost[request]);
        play->since[request] = moment == here->clock ? moment : -1.0;
        play->opening[request] = play->lost[request] = -1.0;
    }
    here->active++;
    here->keys_base += size;
    here->keys_steps++;
    play->begun[request] = here->step;
    play->before[request] = here->newest;
    play->after[request] = -1;
    if (here->newest >= 0) play->after[here->newest] = request;
    here->newest = request;
    if (play->steps[request] == 1) {
        leave(play, here, request, 1);
        answered(play, here, request, moment);
    } else {
        push_end(play, here, (here->step + play->steps[request] - 1) << NUMBER_BITS | request);
    }
}

static void join(struct shared *play, struct replica *here) {
    while (here->waiting >= 0 && play->ready[here->waiting] && fits(play, here, here->waiting)) {
        const int64_t request = enter(play, here);
        play->ready[request] = 0;
        start(play, here, request, play->arrive[request]);
    }
}

static int64_t next_end(const struct shared *play, struct replica *here) {
    for (;;) {
        const int64_t step = here->ends[0] >> NUMBER_BITS, request = here->ends[0] & NUMBER_MASK;
        if (play->begun[request] >= 0 && play->begun[request] + play->steps[request] - 1 == step) return step;
        pop_end(here);
    }
}

static void retire(struct shared *play, struct replica *here) {
    while (here->active && next_end(play, here) == here->step) {
        const int64_t request = here->ends[0] & NUMBER_MASK;
        pop_end(here);
        leave(play, here, request, play->steps[request]);
        answered(play, here, request, here->clock);
    }
}

static void make_room(struct shared *play, struct replica *here) {
    while (keys_of(play, here) + (double)here->entering_keys + play->gain * (double)here->active > play->kv_tokens) {
        int64_t request;
        if (here->partial >= 0 && here->active) {
            request = here->partial;
            note_preempted(play, here, request);
            const int64_t size = play->cached[request] + play->prompt[request];
            here->entered--;
            here->entering_keys -= size;
            here->reserved -= (double)size + play->gain * (double)play->steps[request];
            here->partial = -1;
        } else if (here->active > 1) {
            request = here->newest;
            note_preempted(play, here, request);
            const int64_t generated = 1 + here->step - play->begun[request];
            leave(play, here, request, generated);
            if (here->stalled_size && --here->stalled[here->stalled_size - 1].sequences == 0) here->stalled_size--;
            play->prompt[request] += (int64_t)ceil(play->gain * (double)generated);
            play->steps[request] -= generated;
        } else {
            return;
        }
        play->preempted++;
        play->following[request] = here->waiting;
        if (here->waiting < 0) here->waiting_last = request;
        here->waiting = request;
        here->waiting_s += play->service[request];
        here->queued++;
        here->queued_keys += play->cached[request] + play->prompt[request];
    }
}

static int prompt_may_run(const struct shared *play, const struct replica *here) {
    return here->partial >= 0 || (here->waiting >= 0 && fits(play, here, here->waiting));
}

static int prompts(struct shared *play, struct replica *here, int64_t decodes) {
    if (!prompt_may_run(play, here)) return 0;
    if (!play->reserved_rule && decodes) {
        make_room(play, here);
        decodes = here->active;
        if (!prompt_may_run(play, here)) return 0;
    }
    const int64_t room = most_of(1, play->budget - play->each * decodes);
    int64_t used = 0, pieces = 0, ended = 0;
    double attention = 0.0, images = 0.0;
    while (used < room) {
        int64_t request, done;
        if (here->partial >= 0) {
            request = here->partial;
            done = here->partial_done;
        } else if (here->waiting >= 0 && fits(play, here, here->waiting)) {
            request = here->waiting;
            done = 0;
        } else {
            break;
        }
        int64_t piece = least_of(play->prompt[request] - done, room - used);
        if (play->whole && used && !done && piece < play->prompt[request]) break;
        if (play->images[request] > 0.0) {
            piece = piece_of(play, request, done, piece, play->images_a_step - images);
            if (piece == 0) break;
            images += images_until(play, request, done + piece) - images_until(play, request, done);
        }
        if (here->partial < 0) enter(play, here);
        attention += attention_s(play, request, done + piece) - attention_s(play, request, done);
        used += piece;
        pieces++;
        here->partial = request;
        here->partial_done = done + piece;
        if (done + piece == play->prompt[request]) {
            play->ended[ended++] = request;
            here->partial = -1;
        }
    }
    if (images > 0.0) attention += encoder_s(play, images);
    const double host = (play->step_s + play->prompt_step_s)
                        + (play->per_decode_s * (double)decodes + play->per_prompt_s * (double)pieces);
    const int64_t together = used + play->each * decodes;
    const double factor = (play->prefill_factor * (double)used
                           + play->decode_factor * (double)(play->each * decodes)) / (double)together;
    const double own = decodes
        ? play->decode_factor * (play->own[decodes] + play->own_key[decodes] * keys_of(play, here))
        : play->prefill_factor * play->own[0];
    const double seconds = host + (factor * linear_s(play, together) + (play->prefill_factor * attention + own));
    if (!play->mixed && !here->prompting && here->active) push_stall(play, here, here->clock, here->active);
    here->clock += seconds;
    here->busy += seconds;
    if (play->mixed) {
        here->step++;
        here->keys_steps += decodes;
        if (decodes) {
            count_gaps(play, seconds, 0.0, 1, decodes);
            note_gap(play, here, here->step, seconds);
            retire(play, here);
        }
    }
    const int64_t before = here->active;
    for (int64_t index = 0; index < ended; index++) start(play, here, play->ended[index], here->clock);
    if (!play->mixed) {
        here->prompting = 1;
        here->looked = here->step;
        if (here->active > before) push_stall(play, here, here->clock, here->active - before);
    }
    return 1;
}

static int64_t steps_until(double seconds, double first, double growth, int64_t most) {
    double guess;
    if (growth > 0.0) {
        const double half = first - 0.5 * growth;
        guess = (sqrt(half * half + 2.0 * growth * larger(seconds, 0.0)) - half) / growth;
    } else {
        guess = larger(seconds, 0.0) / first;
    }
    int64_t steps = most_of(1, least_of((int64_t)ceil(smaller(guess, (double)most)), most));
    while (steps > 1) {
        const double fewer = (double)(steps - 1);
        if (!(fewer * first + growth * (0.5 * fewer * ((double)steps - 2.0)) >= seconds)) break;
        steps--;
    }
    while (steps < most) {
        const double many = (double)steps;
        if (!(many * first + growth * (0.5 * many * (many - 1.0)) < seconds)) break;
        steps++;
    }
    return steps;
}

static void decode(struct shared *play, struct replica *here, double until) {
    if (here->active == 0) return;
    if (!play->reserved_rule) make_room(play, here);
    const int64_t sequences = here->active;
    const double keys = keys_of(play, here);
    const double first = play->decode[sequences] + play->decode_key[sequences] * keys;
    const double growth = play->decode_key[sequences] * (play->gain * (double)sequences);
    int64_t most = next_end(play, here) - here->step;
    if (!play->reserved_rule && play->kv_tokens < INFINITY && sequences + here->entered > 1) {
        const double room = (play->kv_tokens - (keys + (double)here->entering_keys)) / (play->gain * (double)sequences);
        most = room < 1.0 ? 1 : least_of(most, (int64_t)smaller(room, 1e9));
    }
    const int full = sequences + here->entered >= play->seats;
    if (here->waiting >= 0 && play->seen[here->waiting] > here->step)
        most = least_of(most, play->seen[here->waiting] - here->step);
    if (here->waiting >= 0 && !play->mixed && fits(play, here, here->waiting))
        most = least_of(most, play->poll - (here->step - here->looked) % play->poll);
    double stop = until;
    /* The step in which a request comes matters where it may be rejected, or is seen later. */
    const int told = play->reject_s < INFINITY || play->reject_tbt_s < INFINITY || play->ahead > 0;
    if (here->expected >= 0 && (told || !(full || here->waiting >= 0)))
        stop = smaller(stop, play->arrive[here->expected]);
    const int64_t steps = stop == INFINITY ? most : steps_until(stop - here->clock, first, growth, most);
    int64_t after = 0;
    if (here->stalled_size) {
        for (int64_t index = 0; index < here->stalled_size; index++)
            count_gaps(play, (here->clock - here->stalled[index].last) + first, 0.0, 1, here->stalled[index].sequences);
        note_openings(play, here, first);
        note_gap(play, here, here->step + 1, (here->clock - here->stalled[0].last) + first);
        here->stalled_size = 0;
        after = 1;
    }
    if (steps > after) {
        count_gaps(play, first + growth * (double)after, growth, steps - after, sequences);
        note_gap(play, here, here->step + steps, first + growth * (double)(steps - 1));
    }
    const double seconds = (double)steps * first + growth * (0.5 * (double)steps * ((double)steps - 1.0));
    here->clock += seconds;
    here->busy += seconds;
    here->step += steps;
    here->keys_steps += steps * sequences;
    retire(play, here);
}

static void advance(struct shared *play, struct replica *here, double until) {
    while (!play->out_of_memory) {
        receive(play, here);
        if (here->active == 0 && here->waiting < 0 && here->partial < 0) {
            if (here->expected < 0) return;
            here->clock = play->arrive[here->expected];
            continue;
        }
        if (here->clock >= until) return;
        if (play->prefilled) join(play, here);
        if (play->mixed) {
            if (!prompts(play, here, here->active)) decode(play, here, until);
        } else {
            const int64_t since = here->step - here->looked;
            const int due = here->active == 0 || here->prompting || (since && since % play->poll == 0);
            if (!(due && prompts(play, here, 0))) {
                here->prompting = 0;
                decode(play, here, until);
            }
        }
    }
}

static struct replica *idle_replicas(int64_t count) {
    struct replica *replicas = calloc((size_t)count, sizeof *replicas);
    for (int64_t place = 0; replicas && place < count; place++) {
        struct replica *here = &replicas[place];
        here->expected = here->expected_last = here->waiting = here->waiting_last = here->newest = here->partial = -1;
        here->left_at = -1.0;
    }
    return replicas;
}

static int play_to_the_end(struct shared *play, struct replica *replicas, int64_t count) {
    play->busy_s = 0.0;
    for (int64_t place = 0; place < count; place++) {
        advance(play, &replicas[place], INFINITY);
        play->busy_s += replicas[place].busy;
        free(replicas[place].ends);
        free(replicas[place].stalled);
        free(replicas[place].longest);
    }
    free(replicas);
    return (int)play->out_of_memory;
}

/* 0: played to the end; 1: out of memory. */
int sweepdb_play(struct shared *play) {
    struct replica *replicas = idle_replicas(play->replicas);
    if (!replicas) return 1;
    if (play->least && play->replicas > 1) {
        for (int64_t request = 0; request < play->count; request++) {
            int64_t chosen = 0;
            for (int64_t place = 0; place < play->replicas; place++) advance(play, &replicas[place], play->arrive[request]);
            for (int64_t place = 1; place < play->replicas; place++)
                if (present(&replicas[place], play->arrive[request]) < present(&replicas[chosen], play->arrive[request]))
                    chosen = place;
            expect(play, &replicas[chosen], request);
        }
    } else {
        for (int64_t request = 0; request < play->count; request++)
            expect(play, &replicas[play->replica[request]], request);
    }
    return play_to_the_end(play, replicas, play->replicas);
}

/* Instances of `play->replicas` replicas each, of which `serving` says how many serve in each stretch of time, from how
   many requests wait when it begins and how many are there in all. `came` counts requests until each stretch ends. */
int sweepdb_play_scaled(struct shared *play, double stretch_s, int64_t stretches, const int64_t *came,
                        const double *share, int64_t most, int64_t (*serving)(int64_t, int64_t, int64_t)) {
    const int64_t count = most * play->replicas;
    struct replica *replicas = idle_replicas(count);
    if (!replicas) return 1;
    int64_t request = 0;
    for (int64_t stretch = 0; stretch < stretches; stretch++) {
        int64_t waiting = 0, there = 0;
        for (int64_t place = 0; place < count; place++) {
            advance(play, &replicas[place], stretch_s * (double)stretch);
            waiting += replicas[place].queued;
            there += replicas[place].in_flight;
        }
        const int64_t instances = serving(stretch, waiting, there);
        for (; request < came[stretch]; request++) {
            const int64_t instance = (int64_t)(share[request] * (double)instances);
            expect(play, &replicas[instance * play->replicas + play->replica[request]], request);
        }
    }
    return play_to_the_end(play, replicas, count);
}
