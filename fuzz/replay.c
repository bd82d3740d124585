/* SPDX-License-Identifier: BSD-2-Clause */
/* Without libFuzzer, a fuzz target runs the inputs that are named on its command line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *name)
{
	static uint8_t input[1 << 20];
	FILE *file = fopen(name, "rb");
	size_t size;
	uint8_t *exact;

	if (!file) {
		perror(name);
		return 1;
	}
	size = fread(input, 1, sizeof(input), file);
	fclose(file);
	exact = malloc(size); /* an exact copy, so that a sanitizer sees one byte too far */
	if (!exact && size)
		return 1;
	for (size_t i = 0; i < size; i++)
		exact[i] = input[i];
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	return 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (replay(argv[i]))
			return 1;
	printf("%d inputs\n", argc - 1);
	return 0;
}
