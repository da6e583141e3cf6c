// SPDX-License-Identifier: Apache-2.0
//
// The work that all translators share.
#include "converter/translate/translate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/str.h"

#define FORGET_SIZE ((size_t)16 << 20)
#define STEP_SIZE   ((size_t)1 << 20)

int translation_step(struct translation *translation, size_t n)
{
    size_t before = translation->since_forget;
    translation->since_forget += n;
    if (before / STEP_SIZE == translation->since_forget / STEP_SIZE)
        return translation->packets.failure;
    const struct input_needs *needs = translation->needs;
    if (needs && needs->goes_on && !needs->goes_on(needs->userdata))
        return -ECANCELED;
    if (translation->since_forget >= FORGET_SIZE) {
        input_forget(translation->input);
        translation->since_forget = 0;
    }
    return translation->packets.failure;
}

void translation_damage(struct translation *translation, const char *format, ...)
{
    if (*translation->damage)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(translation->damage, sizeof(translation->damage), format, args);
    va_end(args);
    str_make_printable(translation->damage, false);
}

void translation_note(struct translation *translation, const char *format, ...)
{
    if (*translation->note)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(translation->note, sizeof(translation->note), format, args);
    va_end(args);
    str_make_printable(translation->note, false);
}

int translate(struct input *input, const struct translator *translator,
              const struct input_needs *needs, struct err *err)
{
    struct translation translation = {.input = input, .needs = needs, .err = err};
    struct spill spill;
    int r = spill_init(&spill, needs ? needs->spill_folder : NULL, err);
    if (needs)
        spill.budget = needs->budget;
    if (r == 0)
        r = packets_init(&translation.packets, &spill, err);
    if (r == 0)
        r = translator->run(&translation);
    if (r == 0)
        r = packets_flush(&translation.packets);
    packets_done(&translation.packets);
    if (r == 0 && *translation.damage && !translation.packets.has_events)
        r = err_set(err, -EBADMSG, "%s; nothing before it could be read", translation.damage);
    if (r == 0)
        r = input_replace(input, &spill, translator->type, err);
    if (r < 0) {
        spill_done(&spill);
        return err_prefix(err, r, "%s", input_name(input));
    }
    if (*translation.damage)
        input_note_damage(input, translation.damage);
    if (*translation.note)
        input_set_remark(input, translation.note);
    return 0;
}
