// SPDX-License-Identifier: Apache-2.0
//
// Lists that Android's recorders dump once: users, interventions for games, and feature flags.
#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define MODE(mode)                                                                                 \
    {                                                                                              \
        COL_android_game_intervention_list_##mode##_mode_supported,                                \
            COL_android_game_intervention_list_##mode##_mode_downscale,                            \
            COL_android_game_intervention_list_##mode##_mode_use_angle,                            \
            COL_android_game_intervention_list_##mode##_mode_fps                                   \
    }

// Columns of a game mode: its presence and its settings
static const struct mode_columns {
    size_t supported, downscale, angle, fps;
} modes[] = {MODE(standard), MODE(perf), MODE(battery)};
#define N_MODES ELEMENTS(modes)

static void mode_set(struct cell *row, const struct wire_field *message)
{
    MESSAGE(mode, AndroidGameInterventionList_GameModeInfo, message);
    uint32_t number = (uint32_t)field_u64(&mode.mode);
    if (number < 1 || number > N_MODES)
        return;
    const struct mode_columns *columns = &modes[number - 1];
    cell_int(row, columns->supported, 1);
    cell_int(row, columns->angle, field_u64(&mode.use_angle) != 0);
    cell_real(row, columns->downscale, field_float(&mode.resolution_downscale));
    cell_real(row, columns->fps, field_float(&mode.fps));
}

static void game_read(struct import *im, const struct wire_field *message)
{
    MESSAGE(game, AndroidGameInterventionList_GamePackageInfo, message);
    struct cell *row = database_row(im->db, TABLE_android_game_intervention_list, NULL);
    cell_field(row, COL_android_game_intervention_list_package_name, &game.name);
    cell_int(row, COL_android_game_intervention_list_uid, field_i64(&game.uid));
    cell_int(row, COL_android_game_intervention_list_current_mode,
             (int32_t)field_u64(&game.current_mode));
    for (size_t i = 0; i < N_MODES; i++)
        cell_int(row, modes[i].supported, 0);
    for (struct fields each =
             fields_of(message, PB_AndroidGameInterventionList_GamePackageInfo_game_mode_info);
         fields_next(&each);)
        mode_set(row, &each.field);
}

static void games_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(games, AndroidGameInterventionList, packet->message);
    stats_set(&im->stats, STAT_game_intervention_has_parse_errors,
              field_u64(&games.parse_error) != 0);
    stats_set(&im->stats, STAT_game_intervention_has_read_errors,
              field_u64(&games.read_error) != 0);
    for (struct fields each =
             fields_of(packet->message, PB_AndroidGameInterventionList_game_packages);
         fields_next(&each);)
        game_read(im, &each.field);
}

// Reads the users. The state maps a user's number to the user's type, in strings. The last entry of
// a user counts.
static void users_now(struct import *im, const struct packet *packet)
{
    struct map64 *users = packet->own;
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_AndroidUserList_error && (int32_t)field.value < 0)
            stats_add(&im->stats, STAT_user_list_errors, 1);
        if (field.number != PB_AndroidUserList_users)
            continue;
        MESSAGE(user, AndroidUserList_UserInfo, &field);
        uint32_t type = strset_add(&im->strings, field_text(&user.type), user.type.size);
        int64_t uid = (int32_t)field_u64(&user.uid);
        import_fail(im, map64_set(users, (uint64_t)uid, type));
    }
}

static void users_finish(struct import *im, void *state)
{
    const struct map64 *users = state;
    CLEANUP(freep) struct map64_slot *sorted = map64_sorted(users);
    if (!sorted)
        import_fail(im, -ENOMEM);
    for (size_t i = 0; sorted && i < users->n; i++) {
        struct cell *row = database_row(im->db, TABLE__android_user, NULL);
        cell_int(row, COL__android_user_android_user_id, (int64_t)sorted[i].key);
        cell_text(row, COL__android_user_type,
                  strset_text(&im->strings, (uint32_t)sorted[i].value));
    }
}

static void users_done(void *state)
{
    map64_done(state);
}

// Gives the word for an enum's number; the first word is for unknown numbers.
#define CHOICE(field, ...) choice_word(field, (const char *const[]){__VA_ARGS__, NULL})

static const char *choice_word(const struct wire_field *field, const char *const *words)
{
    uint64_t i = 0;
    while (words[i] && i != field_u64(field))
        i++;
    return words[i] ? words[i] : words[0];
}

static void flag_read(struct import *im, int64_t ts, const struct wire_field *message)
{
    static const struct {
        uint32_t field;
        size_t column;
    } texts[] = {
        {PB_AndroidAflags_Flag_flag_namespace, COL__android_aflag_flag_namespace},
        {PB_AndroidAflags_Flag_name, COL__android_aflag_name},
        {PB_AndroidAflags_Flag_pkg, COL__android_aflag_package},
        {PB_AndroidAflags_Flag_container, COL__android_aflag_container},
        {PB_AndroidAflags_Flag_value, COL__android_aflag_value},
        {PB_AndroidAflags_Flag_staged_value, COL__android_aflag_staged_value},
    };
    MESSAGE(flag, AndroidAflags_Flag, message);
    struct cell *row = database_row(im->db, TABLE__android_aflag, NULL);
    cell_int(row, COL__android_aflag_ts, ts);
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        cell_field(row, texts[i].column, &flag.at[texts[i].field]);
    cell_text(row, COL__android_aflag_permission,
              CHOICE(&flag.permission, "unspecified", "read-only", "read-write"));
    cell_text(row, COL__android_aflag_value_picked_from,
              CHOICE(&flag.value_picked_from, "unspecified", "default", "server", "local"));
    cell_text(row, COL__android_aflag_storage_backend,
              CHOICE(&flag.storage_backend, "unspecified", "none", "aconfigd", "device_config"));
    cell_text(row, COL__android_aflag_type,
              CHOICE(&flag.type, "unspecified", "boolean", "integer"));
}

static void flags_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(flags, AndroidAflags, packet->message);
    if (field_present(&flags.error)) {
        struct arg error = arg_of_text("error", field_words(&flags.error));
        import_log(im, STAT_android_aflags_errors, &packet->ts, &error, 1);
        return;
    }
    for (struct fields each = fields_of(packet->message, PB_AndroidAflags_flags);
         fields_next(&each);)
        flag_read(im, packet->ts, &each.field);
}

const struct importer importer_game_interventions = {
    .field = PB_TracePacket_android_game_intervention_list, .sorted = games_sorted};
const struct importer importer_users = {
    .field = PB_TracePacket_user_list,
    .now = users_now,
    .state_size = sizeof(struct map64),
    .finish = users_finish,
    .done = users_done,
};
const struct importer importer_aconfig_flags = {.field = PB_TracePacket_android_aflags,
                                                .sorted = flags_sorted};
