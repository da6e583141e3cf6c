// SPDX-License-Identifier: Apache-2.0
#include "producer/cli/library_names.h"

#include "common/elements.h"
#include "tests/unit/unit.h"

static void functions_of_libraries_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {
        "_Znwm",
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        "operator new(unsigned long)",
        "operator new[](unsigned long, std::align_val_t)",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
        "void std::vector<int>::_M_realloc_insert<int const&>(int*, int const&)",
        "std::__cxx11::basic_string<char> std::operator+<char>(char const*)",
        "__gnu_cxx::new_allocator<shop::Order>::allocate(unsigned long, void const*)",
        "alloc::alloc::alloc",
        "<alloc::raw_vec::RawVecInner>::finish_grow",
        "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
        "<&mut alloc::string::String as core::fmt::Write>::write_fmt",
        "<alloc::string::String as core::fmt::Write>::write_char",
        "hashbrown::raw::RawTable<T,A>::reserve_rehash",
        "__rdl_alloc",
    };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (!library_names_have(names[i]))
            fail_msg("%s", names[i]);
}

static void functions_of_programs_are_not(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "main",
        "malloc",
        "alloc",
        "stdx::grow(std::vector<int>&)",
        "std_vector(int)",
        "_ZN4shop5Store3addEi",
        "shop::Store::add(std::vector<int, std::allocator<int> >&)",
        "std::vector<int> shop::make<std::vector<int> >(int)",
        "std::string shop::name()",
        "main::{lambda(std::string)#1}::operator()(std::string) const",
        "Store::operator new(unsigned long)",
        "<shop::Cart as core::fmt::Display>::fmt",
        "<&mut shop::Cart as core::fmt::Display>::fmt",
        "<u8 as shop::Price>::of",
        "cache::main",
    };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (library_names_have(names[i]))
            fail_msg("%s", names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_libraries_are_found),
        cmocka_unit_test(functions_of_programs_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
