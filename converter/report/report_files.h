// SPDX-License-Identifier: Apache-2.0
//
// The files of this folder that embed.py builds into the program.
#pragma once

// A slot of the page, filled for each report.
enum report_slot { REPORT_TEXT, REPORT_TITLE, REPORT_VERDICT, REPORT_DATA, REPORT_END };

// The page in order: texts, and slots between them.
struct report_part {
    enum report_slot slot;
    const char *text; // of REPORT_TEXT
};
extern const struct report_part report_parts[]; // ends with REPORT_END

// A dataset: a query whose rows the page shows. Datasets named "setup" have no rows. Datasets whose
// names begin with REPORT_TEXT_PREFIX are tables of the report as text. The rest of such a name is
// the title, with '_' for blanks. REPORT_COMPARE_PREFIX begins the names of tables of two traces.
#define REPORT_TEXT_PREFIX    "text_"
#define REPORT_COMPARE_PREFIX "compare_"
struct report_dataset {
    const char *name, *sql;
};
extern const struct report_dataset report_datasets[]; // name NULL at the end
