/** Products of matrices by cuBLAS, which is found at run time. */
@NullMarked
package org.ep4j.moe.cublas;

import org.jspecify.annotations.NullMarked;
