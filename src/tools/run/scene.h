/* SPDX-License-Identifier: BSD-2-Clause */
/* A scene of `uroce demo`: a server and a client, the same program, that do RDMA with each other, with what is shown of
 * them. One thread. */
#ifndef UROCE_TOOLS_RUN_SCENE_H
#define UROCE_TOOLS_RUN_SCENE_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>

struct command;

#define SCENE_ARGUMENTS 24

struct scene {
	const char *program;
	const char *argv[SCENE_ARGUMENTS]; /* of both; the client gets the address too */
	const char *port_option;
	bool traced;
	bool (*worth_showing)(const char *line); /* of the output if all goes well; NULL: all of both programs */
	const char *rule;			 /* the client's, of uroce-fault(5); NULL: none */
	const char *log;			 /* of its firings: a file of the directory */
	bool fails;				 /* the rule makes the client fail: that is shown, of both programs */
};

/* What all scenes share. */
extern struct stage {
	char directory[PATH_MAX];	   /* of the traces and logs */
	const char *programs;		   /* directory to look for the programs in; NULL: PATH */
	volatile sig_atomic_t interrupted; /* the signal that asks for the end; 0: none */
} stage;

/* The handler of the signals that ask for the end. */
void scene_interrupt(int signal);

/* 0, or the exit status. */
int scene_play(const struct command *command, const struct scene *scene);

/* A `worth_showing`: perftest's table, its heading and the rows of numbers. */
bool scene_is_row(const char *line);

#endif
