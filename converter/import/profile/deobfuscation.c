// SPDX-License-Identifier: Apache-2.0
//
// A mapping may have millions of names, but a dump uses few of them. The index therefore refers to
// the names in the trace, and only a found name becomes a string. The last of several mappings with
// the same name counts, as in Perfetto.
#include "converter/import/profile/deobfuscation.h"

#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/android/packages.h"
#include "converter/import/importer.h"
#include "converter/import/profile/java_packages.h"
#include "protos/fields.h"

#define UID_PER_USER 100000 // Android: uid = user * UID_PER_USER + application

static uint64_t class_key(struct text name, uint32_t package)
{
    return table_hash_bytes(name.at, name.size) ^ table_hash_u64(package);
}

// Finds a class; NULL: not known. Colliding keys take the next free key. *ret_key: the key of the
// class, or the key for adding the class.
static struct obfuscated_class *class_find(const struct deobfuscation *all, struct text name,
                                           uint32_t package, uint64_t *ret_key)
{
    const uint64_t *index;
    for (*ret_key = class_key(name, package); (index = map64_find(&all->by_class, *ret_key));
         ++*ret_key) {
        struct obfuscated_class *found = &all->classes.items[*index];
        if (found->package == package && text_eq(found->name, name))
            return found;
    }
    return NULL;
}

static bool field_is(const struct obfuscated_field *field, const char *name, size_t size)
{
    size_t class_size = field->class_name.size;
    return size == class_size + 1 + field->name.size &&
           memcmp(name, field->class_name.at, class_size) == 0 && name[class_size] == '.' &&
           memcmp(name + class_size + 1, field->name.at, field->name.size) == 0;
}

static struct obfuscated_field *field_find(const struct deobfuscation *all, const char *name,
                                           size_t size, uint64_t *ret_key)
{
    const uint64_t *index;
    for (*ret_key = table_hash_bytes(name, size); (index = map64_find(&all->by_field, *ret_key));
         ++*ret_key) {
        struct obfuscated_field *found = &all->fields.items[*index];
        if (field_is(found, name, size))
            return found;
    }
    return NULL;
}

static void class_add(struct import *im, struct deobfuscation *all, struct obfuscated_class added)
{
    uint64_t key;
    struct obfuscated_class *known = class_find(all, added.name, added.package, &key);
    if (known)
        *known = added;
    else if (obfuscated_class_vec_push(&all->classes, added) < 0 ||
             map64_set(&all->by_class, key, all->classes.n - 1) < 0)
        import_fail(im, -ENOMEM);
}

static void field_add(struct import *im, struct deobfuscation *all,
                      const struct obfuscated_class *of, const struct wire_field *message,
                      struct strbuf *full)
{
    MESSAGE(part, ObfuscatedMember, message);
    struct obfuscated_field added = {
        .class_name = of->name,
        .real_class_name = of->real_name,
        .name = field_words(&part.obfuscated_name),
        .real_name = field_words(&part.deobfuscated_name),
    };
    strbuf_clear(full);
    strbuf_add(full, added.class_name.at, added.class_name.size);
    strbuf_add_char(full, '.');
    strbuf_add(full, added.name.at, added.name.size);
    uint64_t key;
    struct obfuscated_field *known = field_find(all, full->text, full->size, &key);
    if (known)
        *known = added;
    else if (full->failed || obfuscated_field_vec_push(&all->fields, added) < 0 ||
             map64_set(&all->by_field, key, all->fields.n - 1) < 0)
        import_fail(im, -ENOMEM);
}

static void mapping_index(struct import *im, const struct wire_field *mapping)
{
    struct deobfuscation *all = deobfuscation_of(im);
    MESSAGE(head, DeobfuscationMapping, mapping);
    CLEANUP(strbuf_done) struct strbuf full = {0};
    struct fields classes = fields_of(mapping, PB_DeobfuscationMapping_obfuscated_classes);
    while (!import_failed(im) && fields_next(&classes)) {
        MESSAGE(part, ObfuscatedClass, &classes.field);
        struct obfuscated_class added = {
            .name = field_words(&part.obfuscated_name),
            .real_name = field_words(&part.deobfuscated_name),
            .package = STRSET_NONE,
        };
        if (added.name.size > CLASS_NAME_MAX || added.real_name.size > CLASS_NAME_MAX)
            continue;
        class_add(im, all, added);
        added.package = import_keep(im, &head.package_name);
        if (head.package_name.size)
            class_add(im, all, added);
        struct fields each = fields_of(&classes.field, PB_ObfuscatedClass_obfuscated_members);
        while (!import_failed(im) && fields_next(&each))
            field_add(im, all, &added, &each.field, &full);
    }
}

static struct deobfuscation *index_get(struct import *im)
{
    struct deobfuscation *all = deobfuscation_of(im);
    while (all->n_indexed < all->mappings.n)
        mapping_index(im, &all->mappings.items[all->n_indexed++]);
    return all;
}

uint32_t deobfuscation_package(struct import *im, int64_t upid, const char *path)
{
    const char *package;
    size_t size;
    if (path && java_package_of(path, &package, &size))
        return strset_add(&im->strings, package, size);
    if (upid == UPID_NONE || !im->processes.items.items[upid].has_uid)
        return STRSET_NONE;
    uint32_t app = im->processes.items.items[upid].uid % UID_PER_USER;
    const uint64_t *name = packages_find(im, app);
    return name ? (uint32_t)*name : STRSET_NONE;
}

uint32_t deobfuscated_class(struct import *im, const char *name, uint32_t package)
{
    static const char class_of[] = "java.lang.Class<";
    struct deobfuscation *all = index_get(im);
    struct text inner = text_from(name);
    bool is_class = str_starts_with(name, class_of) && name[inner.size - 1] == '>';
    if (is_class) {
        inner.at += sizeof(class_of) - 1;
        inner.size -= sizeof(class_of);
    }
    uint32_t n_arrays = 0;
    for (; text_ends_with(inner, TEXT("[]")); n_arrays++)
        inner.size -= 2;
    uint64_t key;
    const struct obfuscated_class *found = class_find(all, inner, package, &key);
    if (!found)
        return STRSET_NONE;
    CLEANUP(strbuf_done) struct strbuf real = {0};
    if (is_class)
        strbuf_add_str(&real, class_of);
    strbuf_add(&real, found->real_name.at, found->real_name.size);
    for (; n_arrays > 0; n_arrays--)
        strbuf_add_str(&real, "[]");
    if (is_class)
        strbuf_add_char(&real, '>');
    return import_strbuf_keep(im, &real);
}

uint32_t deobfuscated_field(struct import *im, const char *name)
{
    uint64_t key;
    const struct obfuscated_field *found = field_find(index_get(im), name, strlen(name), &key);
    if (!found)
        return STRSET_NONE;
    CLEANUP(strbuf_done) struct strbuf real = {0};
    if (!memchr(found->real_name.at, '.', found->real_name.size)) {
        strbuf_add(&real, found->real_class_name.at, found->real_class_name.size);
        strbuf_add_char(&real, '.');
    }
    strbuf_add(&real, found->real_name.at, found->real_name.size);
    return import_strbuf_keep(im, &real);
}

void deobfuscation_user(struct import *im, int64_t callsite, int64_t upid)
{
    struct deobfuscation *all = deobfuscation_of(im);
    int64_t key[] = {callsite, upid};
    bool is_new;
    if (all->mappings.n && callsite >= 0 && upid != UPID_NONE)
        import_set_add(im, &all->users, key, sizeof(key), &is_new);
}

struct deobfuscation *deobfuscation_of(const struct import *im)
{
    return importer_state(im, &importer_deobfuscation_mapping);
}

void deobfuscation_done(void *state)
{
    struct deobfuscation *deobfuscation = state;
    mapping_message_vec_done(&deobfuscation->mappings);
    strset_done(&deobfuscation->users);
    obfuscated_class_vec_done(&deobfuscation->classes);
    obfuscated_field_vec_done(&deobfuscation->fields);
    map64_done(&deobfuscation->by_class);
    map64_done(&deobfuscation->by_field);
}
