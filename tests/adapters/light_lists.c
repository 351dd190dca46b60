// SPDX-License-Identifier: BSD-3-Clause
// Lists the devices of libibverbs and nothing more, then says what that took of its process, one
// NAME VALUE a line. Compiled with -DEMPTY it lists none: what a process takes without verbs.
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#ifndef EMPTY
#include <infiniband/verbs.h>
#endif

static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;)
    count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

// Lines of a file of /proc that begin with one of these words.
static void print_lines(const char *path, const char *const *words) {
  char line[512];
  FILE *file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    for (const char *const *word = words; *word != NULL; ++word)
      if (strncmp(line, *word, strlen(*word)) == 0) fputs(line, stdout);
  if (file != NULL) fclose(file);
}

int main(void) {
  static const char *const kMemory[] = {"Rss:", "Private_Clean:", "Private_Dirty:", NULL};
#ifndef EMPTY
  int count = 0;
  struct ibv_device **list = ibv_get_device_list(&count);
  if (list == NULL || count == 0) return 1;
  printf("device %s\n", ibv_get_device_name(list[0]));
  ibv_free_device_list(list);
#endif
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf("cpu_us %ld\n", (long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                             used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  printf("threads %d\n", threads());
  print_lines("/proc/self/smaps_rollup", kMemory);
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    const char *name = strrchr(line, '/');
    if (name != NULL && strstr(line, "r-xp") != NULL) printf("maps %s", name + 1);
  }
  return 0;
}
