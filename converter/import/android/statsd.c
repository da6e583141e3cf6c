// SPDX-License-Identifier: Apache-2.0
//
// StatsdAtom: events of Android's statsd, instants on one track. An atom is a message with one
// field, whose number is the kind of atom. Names of kinds and of their fields come from the trace
// (android.os.statsd.Atom in an ExtensionDescriptor). Without a description, numbers replace the
// names, and the wire types determine the values. Each atom has its own time.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "converter/import/arg_writer.h"
#include "converter/import/descriptors.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define OEM_ATOM_MIN 100000 // kinds of vendors, which have no public description

struct atom {
    int64_t ts;
    struct wire_reader message;
};
VEC_DEFINE(atom_vec, struct atom);

static void value_put(struct arg_writer *writer, const struct wire_field *field)
{
    bool is_real = field->type == WIRE_FIXED32 || field->type == WIRE_FIXED64;
    char name[48];
    int size = snprintf(name, sizeof(name), "field_%u%s", field->number,
                        field->type == WIRE_FIXED32   ? "_assuming_float"
                        : field->type == WIRE_FIXED64 ? "_assuming_double"
                                                      : "");
    struct arg_place place;
    if (!arg_enter(writer, (struct text){name, (size_t)size}, &place))
        return;
    if (field->type == WIRE_BYTES)
        arg_put_base64(writer, field->data, field->size);
    else if (is_real)
        arg_put(writer, arg_real(NULL, field->type == WIRE_FIXED64 ? field_double(field)
                                                                   : field_float(field)));
    else
        arg_put(writer, arg_int(NULL, field_i64(field)));
    arg_leave(writer, place);
}

static struct slice_name atom_args(struct import *im, const struct atom *atom,
                                   struct arg_writer *writer)
{
    struct wire_reader reader = atom->message;
    struct wire_field kind = {0}, field;
    wire_next(&reader, &kind);
    const struct text type_name = TEXT(".android.os.statsd.Atom");
    uint32_t type = descriptors_find(im, type_name.at, type_name.size);
    const struct described_field *known =
        type == TYPE_NONE ? NULL : descriptors_field(im, type, kind.number);
    if (known) {
        message_args_read(writer, type, atom->message, NULL);
        return slice_name_of(&im->strings, known->name);
    }
    if (kind.number < OEM_ATOM_MIN)
        stats_add(&im->stats, STAT_atom_unknown, 1);
    if (kind.type == WIRE_BYTES) {
        reader = wire_sub(&kind);
        wire_foreach(&reader, &field)
            value_put(writer, &field);
    }
    return import_text(im, "atom_%u", kind.number);
}

static void atom_write(struct import *im, const struct packet *packet, const struct atom *atom,
                       struct arg_vec *args)
{
    struct track_spec track = {.type = "statsd_atoms", .name = slice_name("Statsd Atoms")};
    arg_vec_clear(args);
    struct arg_writer writer = {.im = im, .state = packet->state, .args = args};
    struct slice_spec spec = {.ts = atom->ts, .name = atom_args(im, atom, &writer)};
    if (writer.failed)
        stats_add(&im->stats, STAT_atom_unknown, 1);
    if (writer.is_cut)
        stats_add(&im->stats, STAT_mmsql_args_left_out, 1);
    arg_writer_done(&writer);
    spec.track = tracks_get(&im->tracks, &track);
    spec.args = args->items;
    spec.n_args = args->n;
    slice_add(&im->slices, &spec);
}

static int atom_compare(const void *left, const void *right)
{
    const struct atom *a = left, *b = right;
    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    return a->message.pos < b->message.pos ? -1 : a->message.pos > b->message.pos;
}

// Reads the atoms of a packet. The atoms and their times are two lists in the same order.
static int atoms_read(struct import *im, const struct packet *packet,
                      const struct wire_field *message, struct atom_vec *ret)
{
    struct values times = values_of(message, PB_StatsdAtom_timestamp_nanos);
    uint64_t ts;
    size_t n_timed = 0;
    for (struct fields each = fields_of(message, PB_StatsdAtom_atom); fields_next(&each);) {
        struct atom atom = {.ts = packet->ts, .message = wire_sub(&each.field)};
        if (each.field.type == WIRE_BYTES && atom_vec_push(ret, atom) < 0)
            return -ENOMEM;
    }
    while (n_timed < ret->n && values_next(&times, &ts))
        ret->items[n_timed++].ts = (int64_t)ts;
    if (n_timed < ret->n)
        stats_add(&im->stats, STAT_atom_timestamp_missing, (int64_t)(ret->n - n_timed));
    return 0;
}

static void statsd_sorted(struct import *im, const struct packet *packet)
{
    CLEANUP(atom_vec_done) struct atom_vec atoms = {0};
    CLEANUP(arg_vec_done) struct arg_vec args = {0};
    int r = atoms_read(im, packet, packet->message, &atoms);
    if (r == 0 && atoms.n)
        qsort(atoms.items, atoms.n, sizeof(*atoms.items), atom_compare);
    for (size_t i = 0; r == 0 && i < atoms.n; i++)
        atom_write(im, packet, &atoms.items[i], &args);
    import_fail(im, r);
}

const struct importer importer_statsd_atom = {
    .field = PB_TracePacket_statsd_atom,
    .sorted = statsd_sorted,
};
