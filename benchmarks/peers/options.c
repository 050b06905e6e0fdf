#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

typedef struct {
  options* o;
  const char* variants;
  char* problem; /* [OPTIONS_PROBLEM] */
} parser;

static bool wrong(parser* p, const char* what, const char* value, const char* must) {
  snprintf(p->problem, OPTIONS_PROBLEM, "%s %s: %s\n", what, value, must);
  return false;
}

static bool number(parser* p, const char* name, const char* text, int least, int* out) {
  char* end;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < least || value > INT_MAX) {
    char must[64];
    snprintf(must, sizeof must, "must be an integer of at least %d", least);
    return wrong(p, name, text, must);
  }
  *out = (int)value;
  return true;
}

static bool seed(parser* p, const char* text) {
  char* end;
  p->o->seed = strtoull(text, &end, 0);
  return (end != text && *end == '\0') || wrong(p, "--seed", text, "must be an integer");
}

/* Whether `value` is a word of `list`. */
static bool listed(const char* value, const char* list) {
  const size_t length = strlen(value);
  for (const char* at = list; length > 0 && (at = strstr(at, value)) != NULL; at++) {
    const bool starts = at == list || at[-1] == ' ';
    if (starts && (at[length] == ' ' || at[length] == '\0')) return true;
  }
  return false;
}

static bool value_option(parser* p, const char* name, const char* value) {
  options* o = p->o;
  const struct {
    const char* name;
    int least;
    int* target;
  } numbers[] = {
      {"--tokens", 0, &o->tokens},
      {"--hidden", 32, &o->hidden},
      {"--topk", 1, &o->topk},
      {"--experts", 1, &o->experts},
      {"--iterations", 1, &o->iterations},
      {"--warmup", 0, &o->warmup},
      {"--buffers", 1, &o->buffers},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (strcmp(name, numbers[i].name) == 0) {
      return number(p, name, value, numbers[i].least, numbers[i].target);
    }
  }
  if (strcmp(name, "--seed") == 0) return seed(p, value);
  if (strcmp(name, "--routing") == 0) {
    return routing_parse(value, &o->routing) ||
           wrong(p, name, value, "must be uniform, zipf or hot");
  }
  if (strcmp(name, "--variant") == 0) {
    o->variant = value;
    return listed(value, p->variants) || wrong(p, name, value, "is not a variant of this peer");
  }
  return wrong(p, "option", name, "is unknown");
}

static bool parse(parser* p, int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0) {
      p->o->json = true;
    } else if (strcmp(argv[i], "--ceilings") == 0) {
      p->o->ceilings = true;
    } else if (i + 1 == argc) {
      return wrong(p, "option", argv[i], "is unknown, or its value is missing");
    } else if (!value_option(p, argv[i], argv[i + 1])) {
      return false;
    } else {
      i++;
    }
  }
  return true;
}

static bool limit(parser* p, const char* name, int value, bool holds, const char* must) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  return holds || wrong(p, name, text, must);
}

static bool consistent(parser* p, int ranks) {
  const options* o = p->o;
  return limit(p, "ranks", ranks, ranks <= MAX_RANKS, "must be at most 64") &&
         limit(p, "--hidden", o->hidden, o->hidden % 32 == 0, "must be a multiple of 32") &&
         limit(p, "--experts", o->experts, o->experts % ranks == 0,
               "must be a multiple of the ranks") &&
         limit(p, "--experts", o->experts, o->experts <= 65536, "must be at most 65536") &&
         limit(p, "--topk", o->topk, o->topk <= o->experts, "must be at most the experts") &&
         limit(p, "--topk", o->topk, o->topk <= MAX_TOPK, "must be at most 64");
}

bool options_parse(options* o, int argc, char** argv, int ranks, const char* variants,
                   char problem[OPTIONS_PROBLEM]) {
  *o = (options){.tokens = 4096,
                 .hidden = 7168,
                 .topk = 8,
                 .experts = 256,
                 .iterations = 20,
                 .warmup = 5,
                 .buffers = 4,
                 .seed = 1,
                 .routing = ROUTING_UNIFORM};
  parser p = {.o = o, .variants = variants, .problem = problem};
  if (parse(&p, argc, argv) && consistent(&p, ranks)) return true;
  const size_t length = strlen(problem);
  snprintf(problem + length, OPTIONS_PROBLEM - length,
           "usage: %s [--tokens T] [--hidden H] [--topk K] [--experts E] [--iterations I]\n"
           "  [--warmup W] [--buffers B] [--seed S] [--routing uniform|zipf|hot] [--ceilings]\n"
           "  [--json] [--variant one of: %s]\n",
           argv[0], variants);
  return false;
}
