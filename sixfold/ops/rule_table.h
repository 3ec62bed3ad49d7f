// Where the functions that return tables of rules lie.
#pragma once

// They are called once, by whoever puts the tables together. In a section of their own they lie side by side:
// reaching all of them brings one page of code into memory, and not sixteen for each.
#define SF_RULE_TABLE [[gnu::section(".text.startup.rules")]]
