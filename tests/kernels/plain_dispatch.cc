// Replaces kernels/cpu/dispatch.cc: kernels run with the plain table of the namespace PLAIN_TABLE, whatever the
// processor supports.
#include "kernels/cpu/isa/recurrent_table.h"
#include "kernels/cpu/isa/table.h"
#include "kernels/stream.h"

namespace quire::kernels {

namespace PLAIN_TABLE {
const IsaTable& Table();
}

const IsaTable& ActiveTable() { return PLAIN_TABLE::Table(); }
const RecurrentTable& ActiveRecurrentTable() { return baseline::Recurrent(); }
#define QUIRE_NAME_OF(table) #table
#define QUIRE_NAME(table) QUIRE_NAME_OF(table)
const char* CpuIsaName() { return QUIRE_NAME(PLAIN_TABLE); }

}  // namespace quire::kernels
