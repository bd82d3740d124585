/* SPDX-License-Identifier: BSD-2-Clause */
/* The files of the trees: a row for each, with its text or the function that writes it. tree.c looks them up. */
#ifndef UROCE_DEVICE_TREE_FILES_H
#define UROCE_DEVICE_TREE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "device/tree_names.h"

struct device;
struct tree_counter;

struct tree_place {
	struct device *device; /* NULL: no device in the path */
	unsigned index;	       /* the number in the path */
};

/* Writes the contents of a file to `out`. 0 or an errno; ENOENT: this device has no such file. */
typedef int tree_fill(FILE *out, const struct tree_place *p);

/* The pattern of a path has wildcards, which are directories if more follows: %d, %v, %m for names of devices
 * (mlx5_0, uverbs0, umad0), %p for a PCI address, %i for an interface, %g for 0 to DEVICE_GIDS - 1. */
struct tree_row {
	const char *pattern;
	enum tree_kind kind;
	const char *text;
	tree_fill *fill;
	const struct tree_counter *counter; /* of a file that changes: tree_fill_counter() writes it */
	bool is_mad;			    /* a device that takes management datagrams */
};

/* Rows with the same beginning are adjacent. */
extern const struct tree_row tree_rows[];
extern const size_t tree_row_count;

/* Writes the value of a counter. 0. */
int tree_fill_counter(FILE *out, const struct tree_place *p, const struct tree_counter *counter);

/* Minor numbers of a device's uverbs and umad devices. */
unsigned tree_minor(const struct device *d);
unsigned tree_mad_minor(const struct device *d);
/* The PCI address of a device, such as f0ce:01:00.0: one bus for each device, as adapters in slots of their own have.
 */
void tree_pci_address(const struct device *d, char *buffer, size_t size);

#endif
