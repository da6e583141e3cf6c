// SPDX-License-Identifier: Apache-2.0
//
// ChangeTraceConfig: a consumer may change the filters of a running session that select producers
// by name, as in Perfetto. Perfetto ignores other changes of the config. The daemon refuses a
// request with other changes, so that no client relies on them.
#include <errno.h>
#include <stdlib.h>

#include "producer/service/config/config_check.h"
#include "producer/service/service_private.h"

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

static void clear_filters(Pb__TraceConfig *config)
{
    for (size_t i = 0; i < config->n_data_sources; i++) {
        Pb__TraceConfig__DataSource *source = config->data_sources[i];
        free_texts(source->producer_name_filter, source->n_producer_name_filter);
        free_texts(source->producer_name_regex_filter, source->n_producer_name_regex_filter);
        source->producer_name_filter = source->producer_name_regex_filter = NULL;
        source->n_producer_name_filter = source->n_producer_name_regex_filter = 0;
    }
}

// Packs the config without the filters, which may change.
static int pack_rest(const Pb__TraceConfig *config, struct config *ret, struct err *err)
{
    Pb__TraceConfig *copy = config_copy_message(config);
    if (!copy)
        return err_errno(err, -ENOMEM, "trace config");
    clear_filters(copy);
    return config_from_message(copy, ret, err);
}

static int copy_texts(char **texts, size_t n, char ***ret)
{
    char **copy = calloc(n + 1, sizeof(copy[0]));
    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        copy[i] = strdup(texts[i]);
        if (!copy[i]) {
            free_texts(copy, i);
            return -ENOMEM;
        }
    }
    *ret = copy;
    return 0;
}

static int take_filters(Pb__TraceConfig__DataSource *to, const Pb__TraceConfig__DataSource *from)
{
    char **names, **regexes;
    if (copy_texts(from->producer_name_filter, from->n_producer_name_filter, &names) < 0)
        return -ENOMEM;
    if (copy_texts(from->producer_name_regex_filter, from->n_producer_name_regex_filter, &regexes) <
        0) {
        free_texts(names, from->n_producer_name_filter);
        return -ENOMEM;
    }
    free_texts(to->producer_name_filter, to->n_producer_name_filter);
    free_texts(to->producer_name_regex_filter, to->n_producer_name_regex_filter);
    to->producer_name_filter = names;
    to->n_producer_name_filter = from->n_producer_name_filter;
    to->producer_name_regex_filter = regexes;
    to->n_producer_name_regex_filter = from->n_producer_name_regex_filter;
    return 0;
}

// Copies the filters of `config`. The two configs differ only in their filters.
static int change_filters(struct session *session, const Pb__TraceConfig *config)
{
    Pb__TraceConfig *held = session_get_filters(session);
    for (size_t i = 0; i < held->n_data_sources; i++) {
        int r = take_filters(held->data_sources[i], config->data_sources[i]);
        if (r < 0)
            return r;
    }
    session_filters_changed(session);
    return 0;
}

int service_change_config(struct service *service, uint64_t session_id,
                          const Pb__TraceConfig *config, struct err *err)
{
    struct member *member = find(service, session_id);
    struct config before = {0}, after = {0};
    if (!member)
        return no_session(err, session_id);
    if (!is_live(member))
        return err_set(err, -EINVAL, "session %" PRIu64 " has ended", session_id);
    int r = pack_rest(session_get_config(member->session), &before, err);
    if (r == 0)
        r = pack_rest(config, &after, err);
    if (r == 0 &&
        (before.size != after.size || memcmp(before.bytes, after.bytes, before.size) != 0))
        r = err_set(err, -EINVAL,
                    "only producer_name_filter and producer_name_regex_filter may change while a "
                    "session lives");
    config_done(&before);
    config_done(&after);
    if (r == 0)
        r = config_check_regexes(config, err);
    if (r == 0 && (r = change_filters(member->session, config)) < 0)
        err_errno(err, r, "trace config");
    return r;
}
