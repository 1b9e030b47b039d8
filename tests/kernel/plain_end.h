/* SPDX-License-Identifier: Apache-2.0 */
#undef double
#undef exp
#undef sqrt
#undef fmax
#undef tanh
#pragma GCC diagnostic pop
