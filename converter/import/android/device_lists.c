// SPDX-License-Identifier: Apache-2.0
//
// Lists that Android's recorders dump once: its users, what may be done to games, and the flags
// that its features hang on.
#include <errno.h>

#include "common/elements.h"
#include "converter/import/importer.h"

enum { PACKET_GAMES = 83, PACKET_USERS = 123, PACKET_FLAGS = 127 };
enum { GAMES_PACKAGE = 1, GAMES_PARSE_ERROR, GAMES_READ_ERROR };
enum { GAME_NAME = 1, GAME_UID, GAME_CURRENT_MODE, GAME_MODE };
enum { MODE_MODE = 1, MODE_ANGLE, MODE_DOWNSCALE, MODE_FPS };
enum { USERS_USER = 1, USERS_ERROR };
enum { USER_TYPE = 1, USER_UID };
enum { FLAGS_FLAG = 1, FLAGS_ERROR };
enum { FLAG_TEXTS = 6, FLAG_PERMISSION, FLAG_FROM, FLAG_STORAGE, FLAG_TYPE };

// Columns of a mode of a game: whether there is one, and what it does.
static const struct mode_columns {
    size_t supported, downscale, angle, fps;
} modes[] = {
    {COL_android_game_intervention_list_standard_mode_supported,
     COL_android_game_intervention_list_standard_mode_downscale,
     COL_android_game_intervention_list_standard_mode_use_angle,
     COL_android_game_intervention_list_standard_mode_fps},
    {COL_android_game_intervention_list_perf_mode_supported,
     COL_android_game_intervention_list_perf_mode_downscale,
     COL_android_game_intervention_list_perf_mode_use_angle,
     COL_android_game_intervention_list_perf_mode_fps},
    {COL_android_game_intervention_list_battery_mode_supported,
     COL_android_game_intervention_list_battery_mode_downscale,
     COL_android_game_intervention_list_battery_mode_use_angle,
     COL_android_game_intervention_list_battery_mode_fps},
};
#define N_MODES ELEMENTS(modes)
static double float_of(const struct wire_field *field)
{
    return field->type == WIRE_FIXED32 ? (double)wire_to_float(field->value) : 0;
}

static void mode_set(struct cell *row, const struct wire_field *message)
{
    MESSAGE(mode, MODE_FPS, message);
    uint32_t number = (uint32_t)field_u64(&mode[MODE_MODE]);
    if (number < 1 || number > N_MODES)
        return;
    const struct mode_columns *columns = &modes[number - 1];
    cell_int(row, columns->supported, 1);
    cell_int(row, columns->angle, field_u64(&mode[MODE_ANGLE]) != 0);
    cell_real(row, columns->downscale, float_of(&mode[MODE_DOWNSCALE]));
    cell_real(row, columns->fps, float_of(&mode[MODE_FPS]));
}

static void game_read(struct import *im, const struct wire_field *message)
{
    MESSAGE(game, GAME_CURRENT_MODE, message);
    struct cell *row = database_row(im->db, TABLE_android_game_intervention_list, NULL);
    cell_field(row, COL_android_game_intervention_list_package_name, &game[GAME_NAME]);
    cell_int(row, COL_android_game_intervention_list_uid, field_i64(&game[GAME_UID]));
    cell_int(row, COL_android_game_intervention_list_current_mode,
             (int32_t)field_u64(&game[GAME_CURRENT_MODE]));
    for (size_t i = 0; i < N_MODES; i++)
        cell_int(row, modes[i].supported, 0);
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == GAME_MODE)
            mode_set(row, &field);
    }
}

static int games_sorted(struct import *im, void *state, const struct packet *packet,
                        const struct wire_field *message)
{
    (void)state;
    (void)packet;
    MESSAGE(games, GAMES_READ_ERROR, message);
    stats_set(&im->stats, STAT_game_intervention_has_parse_errors,
              field_u64(&games[GAMES_PARSE_ERROR]) != 0);
    stats_set(&im->stats, STAT_game_intervention_has_read_errors,
              field_u64(&games[GAMES_READ_ERROR]) != 0);
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == GAMES_PACKAGE)
            game_read(im, &field);
    }
    return 0;
}

// The last list of a user counts: its type, in strings, by number.
static int users_now(struct import *im, void *state, const struct packet *packet,
                     const struct wire_field *message)
{
    (void)packet;
    struct map64 *users = state;
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == USERS_ERROR && (int32_t)field.value < 0)
            stats_add(&im->stats, STAT_user_list_errors, 1);
        if (field.number != USERS_USER)
            continue;
        MESSAGE(user, USER_UID, &field);
        uint32_t type =
            strset_add(&im->strings, field_text(&user[USER_TYPE]), user[USER_TYPE].size);
        int64_t uid = (int32_t)field_u64(&user[USER_UID]);
        if (type == STRSET_NONE || map64_set(users, (uint64_t)uid, type) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int users_finish(struct import *im, void *state)
{
    size_t cursor = 0;
    const struct map64_slot *slot;
    while ((slot = map64_next(state, &cursor))) {
        struct cell *row = database_row(im->db, TABLE__android_user, NULL);
        cell_int(row, COL__android_user_android_user_id, (int64_t)slot->key);
        cell_text(row, COL__android_user_type, strset_text(&im->strings, (uint32_t)slot->value));
    }
    return 0;
}

static void users_done(void *state)
{
    map64_done(state);
}

// The word for the number of a choice; the first is for those that are not known.
#define CHOICE(field, ...) choice_word(field, (const char *const[]){__VA_ARGS__, NULL})

static const char *choice_word(const struct wire_field *field, const char *const *words)
{
    uint64_t number = field_u64(field);
    for (uint64_t i = 0; words[i]; i++)
        if (i == number)
            return words[i];
    return words[0];
}

static void flag_read(struct import *im, int64_t ts, const struct wire_field *message)
{
    static const size_t columns[FLAG_TEXTS + 1] = {
        0,
        COL__android_aflag_flag_namespace,
        COL__android_aflag_name,
        COL__android_aflag_package,
        COL__android_aflag_container,
        COL__android_aflag_value,
        COL__android_aflag_staged_value,
    };
    MESSAGE(flag, FLAG_TYPE, message);
    struct cell *row = database_row(im->db, TABLE__android_aflag, NULL);
    cell_int(row, COL__android_aflag_ts, ts);
    for (size_t i = 1; i <= FLAG_TEXTS; i++)
        cell_field(row, columns[i], &flag[i]);
    cell_text(row, COL__android_aflag_permission,
              CHOICE(&flag[FLAG_PERMISSION], "unspecified", "read-only", "read-write"));
    cell_text(row, COL__android_aflag_value_picked_from,
              CHOICE(&flag[FLAG_FROM], "unspecified", "default", "server", "local"));
    cell_text(row, COL__android_aflag_storage_backend,
              CHOICE(&flag[FLAG_STORAGE], "unspecified", "none", "aconfigd", "device_config"));
    cell_text(row, COL__android_aflag_type,
              CHOICE(&flag[FLAG_TYPE], "unspecified", "boolean", "integer"));
}

static int flags_sorted(struct import *im, void *state, const struct packet *packet,
                        const struct wire_field *message)
{
    (void)state;
    MESSAGE(flags, FLAGS_ERROR, message);
    if (field_present(&flags[FLAGS_ERROR])) {
        stats_add(&im->stats, STAT_android_aflags_errors, 1);
        return 0;
    }
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == FLAGS_FLAG)
            flag_read(im, packet->ts, &field);
    }
    return 0;
}

const struct importer importer_game_interventions = {.field = PACKET_GAMES, .sorted = games_sorted};
const struct importer importer_users = {
    .field = PACKET_USERS,
    .now = users_now,
    .state_size = sizeof(struct map64),
    .finish = users_finish,
    .done = users_done,
};
const struct importer importer_aconfig_flags = {.field = PACKET_FLAGS, .sorted = flags_sorted};
