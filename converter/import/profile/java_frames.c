// SPDX-License-Identifier: Apache-2.0
//
// DeobfuscationMapping, for Java frames: the real names of their methods, and the methods that were
// inlined into them.
//
// The app of a frame comes from the path of the mapping, or else from the first process that used
// the frame. For a frame without an app, a name counts only if just one app has the name.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "converter/import/profile/deobfuscation.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

#define METHODS_MAX 256                // methods with the same obfuscated name
#define NAMES_MAX   ((size_t)64 << 20) // bytes of all methods' names

// A method with an obfuscated name. Methods that share the name have different lines.
struct method {
    uint32_t package, name;  // in strings
    uint32_t from, to, line; // obfuscated lines, and the first line in the source; 0: not known
    bool has_from, has_to, has_line;
    int64_t next, next_in_package; // next method with the same obfuscated name, or STACK_NONE
};
VEC_DEFINE(method_vec, struct method);

struct methods {
    struct method_vec items;
    struct map64 by_name;    // obfuscated "Class.method", in strings -> newest
    struct map64 in_package; // package_key() -> newest
    struct map64 joined;     // package_key() -> all names of its methods, in strings
    size_t n_name_bytes;
};

// Returns the key of a method's name in a package. Package STRSET_NONE: any package.
static uint64_t package_key(uint32_t name, uint32_t package)
{
    return (uint64_t)package << 32 | name;
}

static uint32_t joined_name(struct import *im, const struct wire_field *class_name,
                            const struct wire_field *member)
{
    CLEANUP(strbuf_done) struct strbuf name = {0};
    // The member's name may already be a full name.
    bool is_full = member->size && memchr(member->data, '.', member->size);
    if (class_name && !is_full) {
        strbuf_add(&name, field_text(class_name), class_name->size);
        strbuf_add_char(&name, '.');
    }
    strbuf_add(&name, field_text(member), member->size);
    return import_strbuf_keep(im, &name);
}

static void method_add(struct import *im, struct methods *methods, uint32_t package,
                       const union message_ObfuscatedClass *class_part,
                       const struct wire_field *message)
{
    MESSAGE(part, ObfuscatedMember, message);
    CLEANUP(strbuf_done) struct strbuf key = {0};
    strbuf_add(&key, field_text(&class_part->obfuscated_name), class_part->obfuscated_name.size);
    strbuf_add_char(&key, '.');
    strbuf_add(&key, field_text(&part.obfuscated_name), part.obfuscated_name.size);
    uint32_t name = strset_find(&im->strings, key.text, key.size);
    if (name == STRSET_NONE) // no frame has this name
        return;
    if (methods->n_name_bytes > NAMES_MAX) {
        stats_add(&im->stats, STAT_mmsql_interned_data_withheld, 1);
        return;
    }
    uint64_t in_package = package_key(name, package);
    struct method method = {
        .package = package,
        .name = joined_name(im, &class_part->deobfuscated_name, &part.deobfuscated_name),
        .from = (uint32_t)field_u64(&part.obfuscated_line_start),
        .to = (uint32_t)field_u64(&part.obfuscated_line_end),
        .line = (uint32_t)field_u64(&part.source_line_start),
        .has_from = field_present(&part.obfuscated_line_start),
        .has_to = field_present(&part.obfuscated_line_end),
        .has_line = field_present(&part.source_line_start),
        .next = map_number(&methods->by_name, name),
        .next_in_package = map_number(&methods->in_package, in_package),
    };
    if (method.name == STRSET_NONE || method_vec_push(&methods->items, method) < 0 ||
        map64_set(&methods->by_name, name, methods->items.n - 1) < 0 ||
        map64_set(&methods->in_package, in_package, methods->items.n - 1) < 0)
        import_fail(im, -ENOMEM);
    else
        methods->n_name_bytes += im->strings.entries[method.name].size;
}

static void methods_read(struct import *im, struct methods *methods,
                         const struct wire_field *message)
{
    MESSAGE(head, DeobfuscationMapping, message);
    uint32_t package_name = import_keep(im, &head.package_name);
    for (struct fields each = fields_of(message, PB_DeobfuscationMapping_obfuscated_classes);
         fields_next(&each);) {
        MESSAGE(part, ObfuscatedClass, &each.field);
        struct fields members = fields_of(&each.field, PB_ObfuscatedClass_obfuscated_methods);
        if (part.obfuscated_name.size > CLASS_NAME_MAX ||
            part.deobfuscated_name.size > CLASS_NAME_MAX) {
            stats_add(&im->stats, STAT_mmsql_interned_data_withheld, 1);
            continue;
        }
        while (fields_next(&members))
            method_add(im, methods, package_name, &part, &members.field);
    }
}

static uint32_t package_of(struct import *im, const struct stack_frame *frame)
{
    const struct stack_mapping *mapping = &stacks_of(im)->mapping_rows.items[frame->mapping];
    const char *path = im->strings.entries[mapping->name].text;
    uint32_t package = deobfuscation_package(im, UPID_NONE, path);
    // Memory without a file may have code of any app.
    return package != STRSET_NONE || str_starts_with(path, "/memfd:") ? package : frame->package;
}

// Notes the app for the frames of a call chain. A call site in `seen`, and the call sites above it,
// have an app already.
static void chain_give(struct import *im, struct map64 *seen, int64_t callsite, uint32_t package)
{
    bool is_new = true;
    while (callsite != STACK_NONE && import_map_get(im, seen, (uint64_t)callsite, 0, &is_new) &&
           is_new) {
        int64_t id = stacks_frame_of(stacks_of(im), callsite, &callsite);
        struct stack_frame *frame = &stacks_of(im)->frame_rows.items[id];
        if (frame->package == STRSET_NONE)
            frame->package = package;
    }
}

static void packages_guess(struct import *im)
{
    const struct strset *users = &deobfuscation_of(im)->users;
    CLEANUP(map64_done) struct map64 seen = {0};
    for (size_t i = 0; i < users->n; i++) {
        int64_t key[2]; // as in deobfuscation_user()
        memcpy(key, users->entries[i].text, sizeof(key));
        uint32_t package = deobfuscation_package(im, key[1], NULL);
        if (package != STRSET_NONE)
            chain_give(im, &seen, key[0], package);
    }
}

static size_t methods_choose(const struct methods *methods, uint32_t name, uint32_t package,
                             const struct method **ret)
{
    bool any = package == STRSET_NONE, one_package = true;
    int64_t at = any ? map_number(&methods->by_name, name)
                     : map_number(&methods->in_package, package_key(name, package));
    size_t n = 0;
    while (at != STACK_NONE && n < METHODS_MAX) {
        const struct method *method = &methods->items.items[at];
        one_package &= n == 0 || ret[0]->package == method->package;
        ret[n++] = method;
        at = any ? method->next : method->next_in_package;
    }
    for (size_t i = 0; i < n / 2; i++) { // the order becomes the oldest first
        const struct method *other = ret[i];
        ret[i] = ret[n - 1 - i];
        ret[n - 1 - i] = other;
    }
    return one_package ? n : 0;
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Joins all candidates for an ambiguous name. Returns the joined name, in strings.
static uint32_t names_join(struct import *im, const struct method *const *methods, size_t n)
{
    const char *names[METHODS_MAX];
    for (size_t i = 0; i < n; i++)
        names[i] = strset_text(&im->strings, methods[i]->name);
    qsort(names, n, sizeof(*names), name_compare);
    CLEANUP(strbuf_done) struct strbuf all = {0};
    for (size_t i = 0; i < n; i++) {
        if (i && str_eq(names[i], names[i - 1]))
            continue;
        if (i)
            strbuf_add_str(&all, " | ");
        strbuf_add_str(&all, names[i]);
    }
    return import_strbuf_keep(im, &all);
}

static void frame_deobfuscate(struct import *im, struct methods *methods, struct stack_frame *frame)
{
    const struct method *fitting[METHODS_MAX], *of_line[METHODS_MAX];
    uint32_t package = package_of(im, frame);
    size_t n = methods_choose(methods, frame->name, package, fitting), n_of_line = 0;
    for (size_t i = 0; i < n && frame->line; i++) {
        const struct method *method = fitting[i];
        if ((!method->has_from || frame->line >= method->from) &&
            (!method->has_to || frame->line <= method->to))
            of_line[n_of_line++] = method;
    }
    if (!n)
        return;
    if (!n_of_line) {
        bool is_new;
        uint64_t key = package_key(frame->name, package);
        uint64_t *joined = map64_get_or_add(&methods->joined, key, STRSET_NONE, &is_new);
        if (joined && is_new)
            *joined = names_join(im, fitting, n);
        if (joined)
            frame->deobfuscated = (uint32_t)*joined;
        else
            import_fail(im, -ENOMEM);
        return;
    }
    // Methods that were inlined into each other, the innermost first.
    int64_t set = SYMBOL_SET_NEW;
    for (size_t i = 0; i < n_of_line; i++)
        set =
            stacks_symbol(im, set, of_line[i]->name, STRSET_NONE,
                          of_line[i]->has_line ? (int64_t)of_line[i]->line : -1, i + 1 < n_of_line);
    frame->symbol_set = set;
    frame->deobfuscated = of_line[n_of_line - 1]->name;
}

static void mapping_now(struct import *im, const struct packet *packet)
{
    import_fail(im, mapping_message_vec_push(&deobfuscation_of(im)->mappings, *packet->message));
}

static void deobfuscation_finish(struct import *im, void *userdata)
{
    (void)userdata;
    struct methods methods = {0};
    vec_foreach(&deobfuscation_of(im)->mappings, message)
        methods_read(im, &methods, message);
    if (methods.items.n)
        packages_guess(im);
    for (size_t i = 0; methods.items.n && i < stacks_of(im)->frame_rows.n; i++)
        frame_deobfuscate(im, &methods, &stacks_of(im)->frame_rows.items[i]);
    method_vec_done(&methods.items);
    map64_done(&methods.by_name);
    map64_done(&methods.in_package);
    map64_done(&methods.joined);
}

const struct importer importer_deobfuscation_mapping = {
    .field = PB_TracePacket_deobfuscation_mapping,
    .now = mapping_now,
    .state_size = sizeof(struct deobfuscation),
    .of_all_machines = true,
    .finish = deobfuscation_finish,
    .done = deobfuscation_done,
};
