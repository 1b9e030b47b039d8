/* SPDX-License-Identifier: Apache-2.0
 *
 * The contracts of all operations, in one include for the backends. Letters
 * and rules: kernels/README.md.
 */
#pragma once
