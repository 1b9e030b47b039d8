/* SPDX-License-Identifier: Apache-2.0
 *
 * Between this and plain_end.h a reference's source is included once more with
 * its numbers in float: the plain evaluation that a kernel's error is measured
 * against. Included after every header that the source names.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define double float
#define exp expf
#define sqrt sqrtf
#define fmax fmaxf
#define tanh tanhf
