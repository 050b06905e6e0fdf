/**
 * Cases: directories with one safetensors file per rank that hold the inputs of a dispatch and a
 * combine and, optionally, the outputs that another implementation recorded. Any engine can run,
 * write and compare them.
 */
@NullMarked
package org.ep4j.cases;

import org.jspecify.annotations.NullMarked;
