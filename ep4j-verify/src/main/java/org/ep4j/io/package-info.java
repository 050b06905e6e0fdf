/** Safetensors files: a strict reader that maps them into memory, and a writer. */
@NullMarked
package org.ep4j.io;

import org.jspecify.annotations.NullMarked;
