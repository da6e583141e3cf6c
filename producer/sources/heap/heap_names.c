// SPDX-License-Identifier: Apache-2.0
//
// One request per client runs at a time, for some hundred frames of one file. Its answer is written
// into the frames, then the next request follows.
//
// Roots are kept here, too, because a helper that replaces a killed one has none. The helper holds
// each root longer than the recorder, so that the recorder never has the last reference to another
// user's mount.
#include "producer/sources/heap/heap_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "producer/foreign/path.h"
#include "producer/foreign/payer.h"
#include "producer/sources/heap/heap_client.h"
#include "producer/sources/heap/names_job.h"

#define NAME_ASKED   (STRSET_NONE - 1)
#define NAME_MISSING (STRSET_NONE - 2)
#define NAMES_TIME   (10 * NSEC_PER_SEC) // maximum time for a file's symbols
#define HOLDS_MAX    8
#define NAME_EXTRA   64 // approximate memory of a text beside its bytes

struct names_asked {
    struct heap_names *names;   // borrowed, as the next members
    struct heap_client *client; // NULL: the client is gone
    struct heap_book *book;
    uint64_t root; // the helper's number
    uint32_t frames[NAMES_A_QUESTION], n;
};

void heap_names_init(struct heap_names *names, struct foreign_helper *helper, const struct log *log,
                     const char *proc, const struct heap_settings *settings)
{
    *names = (struct heap_names){.helper = helper, .log = log, .proc = proc, .settings = settings};
    budget_init(&names->bytes, &(struct budget_limits){.what = "bytes of names",
                                                       .each_max = NAMES_BYTES_EACH,
                                                       .all_max = NAMES_BYTES_ALL});
}

void heap_names_done(struct heap_names *names)
{
    names_roots_done(&names->roots);
    strset_done(&names->texts);
    budget_done(&names->bytes);
}

const char *heap_names_text(const struct heap_names *names, const struct book_frame *frame)
{
    return frame->name >= NAME_MISSING ? NULL : strset_text(&names->texts, frame->name);
}

// Roots.

static struct names_root *root_of(struct heap_names *names, const struct heap_client *client)
{
    return client->names.root ? &names->roots.items[client->names.root - 1] : NULL;
}

// Logs the first refused process. The trace notes all.
static void tell_refusal(struct heap_names *names, struct heap_client *client)
{
    client->names.is_refused = true;
    if (names->refusal_told)
        return;
    names->refusal_told = true;
    log_warning(names->log,
                "linux.heap: process %d of user %u: the recorder may not look at its files "
                "(" FOREIGN_RIGHTS_HINT "): functions of this and similar processes have no names",
                client->pid, (unsigned)client->names.ids.uid);
}

void heap_names_begin(struct heap_names *names, struct heap_client *client)
{
    struct client_names *own = &client->names;
    if (!names->helper || foreign_ids_of(names->proc, client->pid, &own->ids) < 0)
        return;
    own->payer = foreign_payer(names->proc, client->pid, own->ids.uid);
    int fd = foreign_root(names->proc, client->pid);
    own->root = fd < 0 ? 0 : names_root_add(&names->roots, fd);
    if (fd == -EACCES || fd == -EPERM)
        tell_refusal(names, client);
}

// Texts.

static uint32_t keep_text(struct heap_names *names, const struct heap_client *client,
                          const char *text, size_t size)
{
    struct err err = {0};
    uint32_t id = strset_find(&names->texts, text, size);
    if (id != STRSET_NONE)
        return id;
    if (budget_take(&names->bytes, client->names.payer, size + NAME_EXTRA, 0, &err) < 0) {
        if (!names->limit_told)
            log_warning(names->log, "linux.heap: process %d: %s: other functions have no names",
                        client->pid, err.text);
        names->limit_told = true;
        return NAME_MISSING;
    }
    id = strset_add(&names->texts, text, size);
    return id == STRSET_NONE ? NAME_MISSING : id;
}

// Skips frames of the book that have been asked for, or cannot be.
static void move_on(struct heap_book *book)
{
    while (book->n_named < book->frames.n && book->frames.items[book->n_named].name != STRSET_NONE)
        book->n_named++;
}

static struct heap_book *book_with_news(struct heap_client *client)
{
    for (size_t i = 0; i <= HEAP_HEAPS_MAX; i++) {
        struct client_heap *heap = i ? client->heaps[i - 1] : NULL;
        struct heap_book *book = i == 0 ? &client->book : heap ? &heap->book : NULL;
        if (!book || book->has_methods)
            continue;
        move_on(book);
        if (book->n_named < book->frames.n)
            return book;
    }
    return NULL;
}

static bool may_have_names(const struct heap_names *names, const struct heap_book *book,
                           const struct book_frame *frame)
{
    if (frame->mapping >= book->mappings.n)
        return false;
    const char *path = strset_text(&book->texts, book->mappings.items[frame->mapping].path);
    return path[0] == '/' && !heap_settings_skip_names(names->settings, path);
}

// Gathers the frames of one mapping, from the first new one on.
static void gather(const struct heap_names *names, struct heap_book *book,
                   struct names_asked *asked)
{
    uint32_t mapping = BOOK_NO_MAPPING;
    for (size_t i = book->n_named; i < book->frames.n && asked->n < NAMES_A_QUESTION; i++) {
        struct book_frame *frame = &book->frames.items[i];
        if (frame->name != STRSET_NONE)
            continue;
        if (!may_have_names(names, book, frame)) {
            frame->name = NAME_MISSING;
        } else if (mapping == BOOK_NO_MAPPING || mapping == frame->mapping) {
            mapping = frame->mapping;
            frame->name = NAME_ASKED;
            asked->frames[asked->n++] = (uint32_t)i;
        }
    }
    asked->book = book;
}

static size_t write_question(const struct names_asked *asked, uint8_t *bytes)
{
    const struct heap_book *book = asked->book;
    const struct client_names *own = &asked->client->names;
    const struct book_frame *first = &book->frames.items[asked->frames[0]];
    const struct book_mapping *mapping = &book->mappings.items[first->mapping];
    const struct strset_entry *path = &book->texts.entries[mapping->path];
    const struct strset_entry *id = &book->texts.entries[mapping->build_id];
    struct names_ask ask = {
        .root = asked->root,
        .payer = own->payer,
        .uid = own->ids.uid,
        .gid = own->ids.gid,
        .n = asked->n,
        .id_size = (uint32_t)id->size,
        .path_size = (uint32_t)path->size,
    };
    memcpy(bytes, &ask, sizeof(ask));
    uint8_t *at = bytes + sizeof(ask);
    for (uint32_t i = 0; i < asked->n; i++, at += sizeof(uint64_t))
        memcpy(at, &book->frames.items[asked->frames[i]].rel_pc, sizeof(uint64_t));
    memcpy(at, id->text, id->size);
    memcpy(at + id->size, path->text, path->size);
    return (size_t)(at - bytes) + id->size + path->size;
}

// Sets the names of the asked frames from `from` on.
static void set_all(const struct names_asked *asked, uint32_t from, uint32_t name)
{
    for (uint32_t i = from; i < asked->n; i++)
        asked->book->frames.items[asked->frames[i]].name = name;
    if (name == STRSET_NONE && from < asked->n && asked->frames[from] < asked->book->n_named)
        asked->book->n_named = asked->frames[from];
}

static void take_names(const struct names_asked *asked, const uint8_t *bytes, size_t size)
{
    struct names_reader reader = names_reader_over(bytes, size);
    struct text name;
    uint32_t i = 0;
    for (; i < asked->n && names_reader_next(&reader, &name); i++) {
        struct book_frame *frame = &asked->book->frames.items[asked->frames[i]];
        frame->name =
            name.at ? keep_text(asked->names, asked->client, name.at, name.size) : NAME_MISSING;
    }
    set_all(asked, i, i > 0 ? STRSET_NONE : NAME_MISSING); // the others did not fit
}

static void tell_limit(struct heap_names *names, const struct heap_client *client, int result)
{
    if (names->file_told || (result != -EFBIG && result != -EDQUOT))
        return;
    names->file_told = true;
    if (result == -EFBIG)
        log_warning(names->log,
                    "linux.heap: process %d: a file has more than %llu MiB of symbols: its "
                    "functions have no names",
                    client->pid, (unsigned long long)(NAMES_TABLE_MAX >> 20));
    else
        log_warning(names->log,
                    "linux.heap: process %d: the files of its user have more than %llu MiB of "
                    "symbols: functions of others have no names",
                    client->pid, (unsigned long long)(NAMES_READ_MAX >> 20));
}

static void ask_again(struct names_asked *asked, int result)
{
    if (result != -ECANCELED)
        heap_names_ask(asked->names, asked->client);
}

static void found(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct names_asked *asked = userdata;
    struct heap_client *client = asked->client;
    close_fd(fd);
    if (client) {
        client->names.asked = NULL;
        if (result == -ESTALE) {
            struct names_root *root = root_of(asked->names, client);
            root->number = root->number == asked->root ? 0 : root->number;
            set_all(asked, 0, STRSET_NONE);
        } else if (result < 0) {
            tell_limit(asked->names, client, result);
            if (result == NAMES_REFUSED)
                tell_refusal(asked->names, client);
        } else {
            take_names(asked, answer, size);
        }
        ask_again(asked, result);
    }
    free(asked);
}

static void held(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct names_asked *asked = userdata;
    close_fd(fd);
    if (asked->client) {
        struct names_root *root = root_of(asked->names, asked->client);
        asked->client->names.asked = NULL;
        if (result == 0 && size == sizeof(root->number))
            memcpy(&root->number, answer, size);
        ask_again(asked, result);
    }
    free(asked);
}

static bool send_question(struct names_asked *asked, const struct foreign_ask *ask,
                          foreign_done_fn done)
{
    struct heap_client *client = asked->client;
    client->names.asked = asked;
    if (foreign_helper_ask(asked->names->helper, ask, done, asked, NULL, NULL) == 0)
        return true;
    client->names.asked = NULL;
    free(asked);
    return false;
}

// Passes the root to the helper. Returns false if the helper could not be asked.
static bool send_root(struct names_asked *asked, const struct names_root *root)
{
    struct client_names *own = &asked->client->names;
    const struct foreign_ask ask = {.job = FOREIGN_NAMES_HOLD,
                                    .payer = own->payer,
                                    .bytes = "",
                                    .fd = fcntl(root->fd, F_DUPFD_CLOEXEC, 0)};
    own->n_holds++;
    return send_question(asked, &ask, held);
}

static bool send_names(struct names_asked *asked, const struct names_root *root)
{
    uint8_t bytes[sizeof(struct names_ask) + NAMES_A_QUESTION * sizeof(uint64_t) + HEAP_ID_MAX +
                  HEAP_PATH_MAX];
    asked->root = root->number;
    const struct foreign_ask ask = {.job = FOREIGN_NAMES_FIND,
                                    .payer = asked->client->names.payer,
                                    .bytes = bytes,
                                    .size = write_question(asked, bytes),
                                    .fd = -1,
                                    .time_max = NAMES_TIME};
    set_all(asked, 0, NAME_MISSING); // the default, without an answer
    return send_question(asked, &ask, found);
}

void heap_names_ask(struct heap_names *names, struct heap_client *client)
{
    for (struct heap_book *book; !client->names.asked && (book = book_with_news(client));) {
        const struct names_root *root = root_of(names, client);
        bool is_held = root && root->number;
        struct names_asked *asked = memory_malloc(sizeof(*asked));
        if (!asked)
            return;
        *asked = (struct names_asked){.names = names, .client = client};
        if (root && !is_held && client->names.n_holds < HOLDS_MAX) {
            send_root(asked, root);
            continue;
        }
        gather(names, book, asked);
        if (is_held && asked->n > 0) {
            send_names(asked, root);
        } else {
            set_all(asked, 0, NAME_MISSING);
            free(asked);
        }
    }
}

void heap_names_forget(struct heap_client *client)
{
    if (client->names.asked)
        client->names.asked->client = NULL;
    client->names.asked = NULL;
}
