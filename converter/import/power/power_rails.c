// SPDX-License-Identifier: Apache-2.0
//
// PowerRails: energy that the rails of a device have used since boot. Descriptors have the names of
// the rails of a recording session. Descriptors may follow the data, so they are read in file
// order. Each value has its own time.
#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define INDEX_MAX     256 // as in Perfetto
#define INDEX_BITS    9
#define NAME_SIZE_MAX 254

struct rails {
    struct map64 sessions; // uuid -> number of the session
    struct map64 tracks;   // session's number and index -> track
};

// Consumers on the rails of Google's phones, by the ends of the rails' names.
static const struct {
    const char *ending, *name;
} known_rails[] = {
    {"M_VDD_CPUCL0", "cpu.little"},
    {"M_VDD_CPUCL0_M", "cpu.little.mem"},
    {"M_VDD_CPUCL1", "cpu.mid"},
    {"M_VDD_CPUCL1_M", "cpu.mid.mem"},
    {"M_VDD_CPUCL2", "cpu.big"},
    {"M_VDD_INT", "system.fabric"},
    {"M_VDD_TPU", "tpu"},
    {"VSYS_PWR_DISP", "display"},
    {"VSYS_PWR_DISPLAY", "display"},
    {"M_DISP", "ldo.main.a.display"},
    {"VSYS_PWR_MODEM", "modem"},
    {"M_VDD_MIF", "memory.interface"},
    {"VSYS_PWR_WLAN_BT", "wifi.bt"},
    {"VSYS_PWR_MMWAVE", "mmwave"},
    {"S_VDD_AOC_RET", "aoc.memory"},
    {"S_VDD_AOC", "aoc.logic"},
    {"S_VDDQ_MEM", "ddr.a"},
    {"S_VDD2L", "ddr.b"},
    {"S_VDD2L_MEM", "ddr.b"},
    {"S_VDD2H_MEM", "ddr.c"},
    {"S_VDD_G3D", "gpu"},
    {"S_VDD_G3D_L2", "gpu.l2"},
    {"S_GNSS_CORE", "gps"},
    {"VSYS_PWR_RFFE", "radio.frontend"},
    {"VSYS_PWR_CAMERA", "camera"},
    {"S_VDD_CAM", "multimedia"},
    {"S_UDFPS", "udfps"},
    {"S_PLL_MIPI_UFS", "ufs"},
    {"M_LLDO1", "ldo.main.a"},
    {"M_LLDO2", "ldo.main.b"},
    {"S_LLDO1", "ldo.sub"},
};

static void rail_name(const struct wire_field *raw, struct strbuf *name)
{
    for (size_t i = 0; i < ELEMENTS(known_rails); i++) {
        if (!text_ends_with(field_words(raw), text_from(known_rails[i].ending)))
            continue;
        strbuf_addf(name, "power.rails.%s", known_rails[i].name);
        return;
    }
    strbuf_add_str(name, "power.");
    strbuf_add(name, field_text(raw), raw->size);
    strbuf_add_str(name, "_uws");
}

// Returns the track of a rail; NULL: no descriptor.
static const uint64_t *rail_find(const struct rails *rails, uint64_t session, uint32_t index)
{
    const uint64_t *number = map64_find(&rails->sessions, session);
    return number && index <= INDEX_MAX ? map64_find(&rails->tracks, *number << INDEX_BITS | index)
                                        : NULL;
}

static void rail_describe(struct import *im, struct rails *rails, uint64_t session,
                          const struct wire_field *message)
{
    MESSAGE(part, PowerRails_RailDescriptor, message);
    const struct wire_field *raw = &part.rail_name, *system = &part.subsys_name;
    uint32_t index = (uint32_t)field_u64(&part.index);
    if (index > INDEX_MAX)
        return;
    CLEANUP(strbuf_done) struct strbuf name = {0};
    rail_name(raw, &name);
    struct track_spec spec = {
        .type = "power_rails",
        .counter = true,
        .dimensions = {dimension_text("name", field_text(raw), raw->size),
                       dimension_int("session_uuid", (int64_t)session)},
        .name = name_cut((struct slice_name){name.text, name.size}, NAME_SIZE_MAX),
    };
    uint32_t track = tracks_get(&im->tracks, &spec);
    struct arg args[] = {
        arg_text("raw_name", raw->data, raw->size),
        arg_text("subsystem_name", system->data, system->size),
    };
    track_describe(&im->tracks, track, args, 2);
    bool is_new;
    const uint64_t *number =
        import_map_get(im, &rails->sessions, session, rails->sessions.n, &is_new);
    if (number)
        import_fail(im, map64_set(&rails->tracks, *number << INDEX_BITS | index, track));
}

static void rails_now(struct import *im, const struct packet *packet)
{
    MESSAGE(part, PowerRails, packet->message);
    for (struct fields each = fields_of(packet->message, PB_PowerRails_rail_descriptor);
         fields_next(&each);)
        rail_describe(im, packet->own, field_u64(&part.session_uuid), &each.field);
}

static void energy_push(struct import *im, const struct rails *rails, uint64_t session,
                        int64_t packet_ts, const struct wire_field *message)
{
    MESSAGE(energy, PowerRails_EnergyData, message);
    const struct wire_field *ms = &energy.timestamp_ms;
    int64_t ts = packet_ts;
    if (field_present(ms)) {
        int64_t boot_ns = (int64_t)(field_u64(ms) * NSEC_PER_MSEC);
        if (!import_time_counted(im, CLOCK_ID_BOOTTIME, boot_ns, &ts))
            return;
    }
    const uint64_t *track = rail_find(rails, session, (uint32_t)field_u64(&energy.index));
    if (!track) {
        stats_add(&im->stats, STAT_power_rail_unknown_index, 1);
        return;
    }
    struct arg arg = arg_uint("packet_ts", (uint64_t)packet_ts);
    counter_push(im, ts, (uint32_t)*track, (double)field_u64(&energy.energy),
                 args_add(&im->args, &arg, 1));
}

static void rails_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, PowerRails, packet->message);
    if (!field_present(&part.energy_data))
        stats_add(&im->stats, STAT_power_rail_empty_packet, 1);
    for (struct fields each = fields_of(packet->message, PB_PowerRails_energy_data);
         fields_next(&each);)
        energy_push(im, packet->own, field_u64(&part.session_uuid), packet->ts, &each.field);
}

static void rails_done(void *state)
{
    struct rails *rails = state;
    map64_done(&rails->sessions);
    map64_done(&rails->tracks);
}

const struct importer importer_power_rails = {
    .field = PB_TracePacket_power_rails,
    .now = rails_now,
    .sorted = rails_sorted,
    .state_size = sizeof(struct rails),
    .done = rails_done,
};
