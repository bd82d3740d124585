/* SPDX-License-Identifier: BSD-2-Clause */
/* A scene of `uroce demo`: a server and a client that do RDMA with each other, and the output to show. One thread. */
#ifndef UROCE_TOOLS_RUN_SCENE_H
#define UROCE_TOOLS_RUN_SCENE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct command;

#define SCENE_ARGUMENTS 24

struct scene {
	const char *program;
	const char *argv[SCENE_ARGUMENTS]; /* arguments of both; the client gets the address too */
	const char *port_option;
	bool traced;
	bool (*worth_showing)(const char *line); /* lines to show if all goes well; NULL: all lines of both programs */
	const char *rule;			 /* of the client, see uroce-fault(5); NULL: none */
	const char *log;			 /* log of firings: a file in the directory */
	bool fails;				 /* the rule makes the client fail, which is shown, of both programs */
};

/* State shared by all scenes. */
extern struct stage {
	char directory[PATH_MAX]; /* for traces and logs */
	const char *programs;	  /* directory to look for the programs in; NULL: PATH */
} stage;

/* Plays a scene. 0, or an exit status. */
int scene_play(const struct command *command, const struct scene *scene);

/* What a program has printed to an unnamed file, from the beginning; NULL: no memory. */
FILE *scene_output(int output);

/* True of rows of perftest's table, as a `worth_showing`. */
bool scene_is_row(const char *line);

#endif
