// SPDX-License-Identifier: Apache-2.0
//
// JSON within an HTML page.
#pragma once

#include <stdint.h>

#include "common/str.h"

// Adds a string with quotes. Nothing in the string can end a script element or start markup.
// Malformed characters become '?'.
void json_add_text(struct strbuf *json, const char *text);

// Adds a number, or null for a number that JSON lacks.
void json_add_double(struct strbuf *json, double value);

// Adds text as HTML.
void html_add_text(struct strbuf *html, const char *text);
